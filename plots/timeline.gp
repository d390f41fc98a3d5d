# SPDX-License-Identifier: MIT
# What each rank does over a step: compute above, communication below it in the same row.
# DATA: row, rank, count, kind (0 to 5, order of span_colours), micro_batch, stage, start_s, end_s. ARG4: number of rows.
# ARG5: length of the step in seconds. ARG6: the kinds that occur, "0 1 4".
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_rows = int(ARG4)
step = real(ARG5)
kinds = ARG6
load ARG0[1:strlen(ARG0)-strlen("timeline.gp")] . "style.gp"

WIDTH = 1200
row_height = n_rows <= 8 ? 44.0 : n_rows <= 16 ? 34.0 : n_rows <= 32 ? 24.0 : 18.0
HEIGHT = most(250, 110 + row_height * n_rows)
unit = time_size(step)
end = step > 0 ? step / unit : 1
names = "forward backward weight recompute optimizer communication"
is_comm(k) = k == 5
low(row, k) = is_comm(k) ? row + 0.26 : row - 0.42
high(row, k) = is_comm(k) ? row + 0.44 : row + 0.22
stats argv_data skip 1 using 5 name "B" nooutput
stats argv_data skip 1 using 7 name "S" nooutput
most_digits = exists("B_max") ? strlen(sprintf("%d", B_max)) : 1
# A label needs about 7.5 px for each digit; the drawing is about 900 px wide.
has_room(from, to) = (to - from) / step * 900 > 7.5 * most_digits + 4
mark(k, wanted, from, to, text) = k == wanted && strlen(text) > 0 && has_room(from, to) ? text : ""

set xlabel "time, " . time_unit(step)
set xrange [0:end]
set yrange [n_rows-0.45:-0.6]
set border 1
unset grid
set grid xtics linecolor rgb FAINT linewidth 0.6 linetype 1
set ytics scale 0 noenhanced
if (n_rows > 32) { set ytics font FONT.",10" }
set key maxrows 6
if (S_records < 1500) { set style fill solid 1.0 border rgb "#ffffff" }
eval begin_picture
plot for [i=1:words(kinds)] argv_data skip 1 using \
       ($4 == int(word(kinds, i)) ? $7 / unit : NaN):1:($7 / unit):($8 / unit):(low($1, $4)):(high($1, $4)):yticlabel(class_name($2, $3)) \
       with boxxyerror linewidth 0.4 fillcolor rgb span_colours[int(word(kinds, i))+1] title word(names, int(word(kinds, i))+1), \
     for [i=1:words(kinds)] argv_data skip 1 using \
       (($7 + $8) / 2 / unit):($1 - 0.1):(is_comm($4) ? "" : mark($4, int(word(kinds, i)), $7, $8, stringcolumn(5))) with labels \
       textcolor rgb span_text_colours[int(word(kinds, i))+1] font FONT.",".(n_rows > 16 ? 9 : 11) noenhanced notitle
eval end_picture
