# SPDX-License-Identifier: MIT
# Where a step goes: one bar for each plan.
# DATA: plan, then seconds of the six parts. ARG4: number of plans. ARG5: length of the longest name.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_plans = int(ARG4)
name_length = int(ARG5)
load ARG0[1:strlen(ARG0)-strlen("step-time.gp")] . "style.gp"

longest = 34
WIDTH = 900 + 8 * least(longest, name_length)
HEIGHT = most(290, 120 + 42 * n_plans)
total(n) = n < 2 ? 0 : sum [c=2:n] column(c)
stats argv_data skip 1 using (total(7)) name "T" nooutput
unit = time_size(T_max)
names = "compute recompute exposed bubble optimizer other"

set xlabel "time of one step, " . time_unit(T_max)
set xrange [0:(T_max > 0 ? T_max / unit * 1.17 : 1)]
set yrange [n_plans-0.4:-0.6]
set lmargin least(longest, name_length) + 3
set border 1
set key maxrows 6
unset grid
set grid xtics linecolor rgb FAINT linewidth 0.6 linetype 1
set ytics scale 0 noenhanced
eval begin_picture
plot for [c=2:7] argv_data skip 1 using (0):0:(total(c-1) / unit):(total(c) / unit):($0-0.36):($0+0.36):yticlabel(shorten(stringcolumn(1), longest)) \
       with boxxyerror linecolor rgb time_colours[c-1] title (c == 4 ? "exposed communication" : word(names, c-1)), \
     argv_data skip 1 using (total(7) / unit):0:(time_text(total(7))) with labels left offset 0.7, 0 \
       textcolor rgb INK noenhanced notitle
eval end_picture
