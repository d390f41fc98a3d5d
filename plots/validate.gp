# SPDX-License-Identifier: MIT
# Predicted against measured, both logarithmic, one colour for each source; the line is a perfect prediction, the band
# within 10 %. DATA: blocks with a source's name, then measured and predicted. ARG4: number of blocks.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_series = int(ARG4)
load ARG0[1:strlen(ARG0)-strlen("validate.gp")] . "style.gp"

WIDTH = 860
HEIGHT = 640
colour(i) = plan_colours[i % 8 + 1]

set logscale xy 10
set xlabel "measured: " . argv_title
set ylabel "predicted"
set grid xtics ytics linecolor rgb FAINT linewidth 0.6 linetype 1
set key outside right top
set lmargin 9
stats argv_data using 1:2 nooutput

low = STATS_min_x * 0.7
high = STATS_max_x * 1.4
set xrange [low:high]
set yrange [(STATS_min_y < low ? STATS_min_y : low):(STATS_max_y > high ? STATS_max_y : high)]

eval begin_picture
plot x * 1.1 with lines linewidth 0.6 dashtype 2 linecolor rgb FAINT notitle, \
     x / 1.1 with lines linewidth 0.6 dashtype 2 linecolor rgb FAINT notitle, \
     x with lines linewidth 1 linecolor rgb FAINT notitle, \
     for [i=0:n_series-1] argv_data index i using 1:2 skip 1 with points pointtype (i < 8 ? 7 : 5) pointsize 0.35 \
       linecolor rgb colour(i) title columnheader(1)
eval end_picture
