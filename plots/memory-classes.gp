# SPDX-License-Identifier: MIT
# What fills each GPU at its peak, one bar for each class of equal GPUs.
# DATA: rank, count, then bytes of the seven classes, the allocator's cache and the overhead. ARG4: memory of the GPU in
# bytes, or 0. ARG5: number of bars.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
capacity = real(ARG4)
n_bars = int(ARG5)
load ARG0[1:strlen(ARG0)-strlen("memory-classes.gp")] . "style.gp"

WIDTH = most(760, least(1500, 330 + 60 * n_bars))
total(n) = sum [c=3:n] column(c)
stats argv_data skip 1 using (total(11)) name "M" nooutput
unit = bytes_size(M_max)
has_limit = capacity > 0 && M_max > 0.4 * capacity
top = has_limit ? most(M_max, capacity) / unit : M_max / unit
names = memory_names . " cache overhead"
# With many bars not every one has room for its name.
every_nth = ceil(n_bars / 20.0)

stats argv_data skip 1 using 2 name "N" nooutput
has_counts = N_max > 1
set bmargin (has_counts ? 5 : 3.5)
set xlabel (has_counts ? "rank, and how many GPUs are like it" : "rank") offset 0, (has_counts ? -0.9 : 0)
set ylabel "on the device, " . bytes_unit(M_max)
set xrange [-0.6:n_bars-0.4]
set yrange [0:(top > 0 ? top * 1.12 : 1)]
set xtics scale 0 noenhanced
set boxwidth (n_bars > 30 ? 0.95 : 0.72)
if (has_limit) {
  set arrow 1 from graph 0, first capacity / unit to graph 1, first capacity / unit nohead dashtype 2 linewidth 1.6 linecolor rgb RED front
}
bar_label(n, rank, count) = int(n) % every_nth != 0 ? "" : sprintf(count > 1 ? "%d\nx%d" : "%d", rank, count)
eval begin_picture
plot for [c=11:3:-1] argv_data skip 1 using 0:(total(c) / unit):xticlabel(bar_label($0, $1, $2)) with boxes \
       linecolor rgb memory_colours[c-2] title word(names, c-2), \
     argv_data skip 1 using 0:(total(11) / unit):(n_bars <= 16 ? digits(total(11) / unit) : "") with labels \
       offset 0, 0.6 textcolor rgb INK font FONT.",11" noenhanced notitle, \
     for [i=1:has_limit] keyentry with lines dashtype 2 linewidth 1.6 linecolor rgb RED title "memory " . bytes_text(capacity)
eval end_picture
