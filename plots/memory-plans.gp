# SPDX-License-Identifier: MIT
# What fills the fullest GPU of each plan at its peak.
# DATA: plan, then bytes of the seven classes, the allocator's cache and the overhead. ARG4: memory of the GPU in bytes, or
# 0. ARG5: number of plans. ARG6: length of the longest name.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
capacity = real(ARG4)
n_plans = int(ARG5)
name_length = int(ARG6)
load ARG0[1:strlen(ARG0)-strlen("memory-plans.gp")] . "style.gp"

longest = 34
WIDTH = 900 + 8 * least(longest, name_length)
HEIGHT = most(430, 120 + 42 * n_plans)
total(n) = n < 2 ? 0 : sum [c=2:n] column(c)
stats argv_data skip 1 using (total(10)) name "M" nooutput
unit = bytes_size(M_max)
has_limit = capacity > 0 && M_max > 0.4 * capacity
top = has_limit ? most(M_max, capacity) / unit : M_max / unit
names = memory_names . " cache overhead"

set xlabel "on the device, " . bytes_unit(M_max)
set xrange [0:(top > 0 ? top * 1.3 : 1)]
set yrange [n_plans-0.4:-0.6]
set lmargin least(longest, name_length) + 3
set border 1
set key maxrows 10
unset grid
set grid xtics linecolor rgb FAINT linewidth 0.6 linetype 1
set ytics scale 0 noenhanced
if (has_limit) {
  set arrow 1 from first capacity / unit, graph 0 to first capacity / unit, graph 1 nohead dashtype 2 linewidth 1.6 linecolor rgb RED front
}
eval begin_picture
plot for [c=2:10] argv_data skip 1 using (0):0:(total(c-1) / unit):(total(c) / unit):($0-0.36):($0+0.36):yticlabel(shorten(stringcolumn(1), longest)) \
       with boxxyerror linecolor rgb memory_colours[c-1] title word(names, c-1), \
     argv_data skip 1 using (top * 1.3):0:(bytes_text(total(10))) with labels right \
       textcolor rgb INK noenhanced notitle, \
     for [i=1:has_limit] keyentry with lines dashtype 2 linewidth 1.6 linecolor rgb RED title "memory " . bytes_text(capacity)
eval end_picture
