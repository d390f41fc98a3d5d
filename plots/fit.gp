# SPDX-License-Identifier: MIT
# A measured curve and what was fitted to it: one colour for each group of ranks.
# DATA: blocks with a name, then bytes and seconds: median, 10th and 90th percentile, fitted. ARG4: number of blocks.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_series = int(ARG4)
load ARG0[1:strlen(ARG0)-strlen("fit.gp")] . "style.gp"

WIDTH = 860
HEIGHT = most(460, 140 + 22 * n_series)
colour(i) = plan_colours[i % 8 + 1]

set logscale x 2
set logscale y 10
set xlabel "size"
set ylabel "time"
set xtics ("8 B" 8, "512 B" 512, "32 KiB" 2**15, "2 MiB" 2**21, "128 MiB" 2**27, "8 GiB" 2.0**33, "512 GiB" 2.0**39)
set ytics () scale 0.5
do for [decade=-9:3] {
  do for [m in "1 2 5"] { set ytics add (time_text(m * 10.0**decade) m * 10.0**decade) }
}
set grid xtics ytics linecolor rgb FAINT linewidth 0.6 linetype 1
set key outside right top title "points measured,\nlines fitted" left
set lmargin 9
set errorbars 0

eval begin_picture
plot for [i=0:n_series-1] argv_data index i using 1:5 skip 1 with lines linewidth 1.6 linecolor rgb colour(i) notitle, \
     for [i=0:n_series-1] argv_data index i using 1:2:3:4 skip 1 with yerrorbars pointtype 7 pointsize 0.5 \
       linewidth 0.8 linecolor rgb colour(i) title columnheader(1)
eval end_picture
