# SPDX-License-Identifier: MIT
# Memory of one GPU over a step, by class, peak marked.
# DATA: time_s, then one column of bytes for each class. ARG4: memory of the GPU in bytes, or 0.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
capacity = real(ARG4)
load ARG0[1:strlen(ARG0)-strlen("memory.gp")] . "style.gp"

total(n) = sum [c=2:n] column(c)
stats argv_data skip 1 using 1:(total(8)) name "M" nooutput
stats argv_data skip 1 using 1 name "T" nooutput
# The first time that the peak is reached.
stats argv_data skip 1 using (total(8) == M_max_y ? $1 : NaN) name "P" nooutput
unit = bytes_size(M_max_y)
tick = time_size(T_max)
peak = M_max_y / unit
peak_at = P_min / tick
end = T_max > 0 ? T_max / tick : 1
# The limit is drawn where it matters: when the peak comes near it.
has_limit = capacity > 0 && M_max_y > 0.5 * capacity
top = has_limit ? most(peak, capacity / unit) : peak

set xlabel "time, " . time_unit(T_max)
set ylabel "allocated, " . bytes_unit(M_max_y)
set xrange [0:end]
set yrange [0:(top > 0 ? top * 1.15 : 1)]
set style line 1 linecolor rgb INK linewidth 1.2
set label 1 "peak " . bytes_text(M_max_y) . " at " . time_text(P_min) at peak_at, peak \
  offset (peak_at > 0.6 * end ? -0.8 : 0.8), 0.9 textcolor rgb INK noenhanced
if (peak_at > 0.6 * end) { set label 1 right } else { set label 1 left }
set object 1 circle at peak_at, peak size graph 0.007 fillcolor rgb RED fillstyle solid noborder front
if (has_limit) {
  set arrow 1 from 0, capacity / unit to end, capacity / unit nohead dashtype 2 linewidth 1.6 linecolor rgb RED front
}
eval begin_picture
plot for [c=8:2:-1] argv_data skip 1 using ($1 / tick):(total(c) / unit) with fillsteps \
       linecolor rgb memory_colours[c-1] title word(memory_names, c-1), \
     argv_data skip 1 using ($1 / tick):(total(8) / unit) with steps linestyle 1 notitle, \
     for [i=1:has_limit] keyentry with lines dashtype 2 linewidth 1.6 linecolor rgb RED title "memory " . bytes_text(capacity)
eval end_picture
