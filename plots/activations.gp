# SPDX-License-Identifier: MIT
# Activations of all GPUs together over a step, every plan on the same axes: what cyclic data parallelism flattens.
# DATA: time_s, then one column of bytes for each plan, empty after its step has ended; names in the first line.
# ARG4: number of plans.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_plans = int(ARG4)
load ARG0[1:strlen(ARG0)-strlen("activations.gp")] . "style.gp"

largest = 0.0
array peaks[n_plans]
do for [c=2:n_plans+1] {
  stats argv_data skip 1 using c name "A" nooutput
  largest = most(largest, A_max)
  peaks[c-1] = A_max
}
stats argv_data skip 1 using 1 name "T" nooutput
unit = bytes_size(largest)
tick = time_size(T_max)

WIDTH = 1000
set key maxrows n_plans + 1
set key title "plan: largest sum" left
HEIGHT = most(440, 150 + 30 * n_plans)
set xlabel "time, " . time_unit(T_max)
set ylabel "activations of all GPUs, " . bytes_unit(largest)
set xrange [0:(T_max > 0 ? T_max / tick : 1)]
set yrange [0:(largest > 0 ? largest / unit * 1.08 : 1)]
colour(c) = plan_colours[(c - 2) % 8 + 1]
dash(c) = (c - 2) / 8 + 1
eval begin_picture
plot for [c=2:n_plans+1] argv_data using ($1 / tick):(column(c) / unit) with steps linewidth (4 - 2.2 * (c - 1) / n_plans) \
       linecolor rgb colour(c) dashtype dash(c) title shorten(columnheader(c), 24) . ": " . bytes_text(peaks[c-1])
eval end_picture
