# SPDX-License-Identifier: MIT
# Bytes being sent at each moment of a step, all GPUs together.
# DATA: time_s, bytes.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
load ARG0[1:strlen(ARG0)-strlen("traffic.gp")] . "style.gp"

HEIGHT = 360
stats argv_data skip 1 using 1:2 name "B" nooutput
stats argv_data skip 1 using ($2 == B_max_y ? $1 : NaN) name "P" nooutput
unit = bytes_size(B_max_y)
tick = time_size(B_max_x)
end = B_max_x > 0 ? B_max_x / tick : 1
peak_at = P_min / tick

set xlabel "time, " . time_unit(B_max_x)
set ylabel "on the links, " . bytes_unit(B_max_y)
set xrange [0:end]
set yrange [0:(B_max_y > 0 ? B_max_y / unit * 1.18 : 1)]
unset key
set label 1 (B_max_y > 0 ? "at most " . bytes_text(B_max_y) : "nothing is sent") at peak_at, B_max_y / unit \
  offset (peak_at > 0.6 * end ? -0.8 : 0.8), 0.8 textcolor rgb INK noenhanced
if (peak_at > 0.6 * end) { set label 1 right } else { set label 1 left }
if (B_max_y > 0) { set object 1 circle at peak_at, B_max_y / unit size graph 0.007 fillcolor rgb RED fillstyle solid noborder front }
eval begin_picture
plot argv_data skip 1 using ($1 / tick):($2 / unit) with fillsteps linecolor rgb memory_colours[7], \
     argv_data skip 1 using ($1 / tick):($2 / unit) with steps linecolor rgb INK linewidth 1
eval end_picture
