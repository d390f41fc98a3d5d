# SPDX-License-Identifier: MIT
# What all figures share: arguments, fonts, colours, units. Every figure is called as
#   gnuplot -c FIGURE.gp DATA OUT TITLE ...        (OUT has no suffix; OUT.svg and OUT.png are written)
# and loads this file first, with `argv_data`, `argv_out` and `argv_title` set. Data are in seconds and bytes.
# Colours: adjacent ones differ in lightness by 15 or more (CIE L*), so they survive grey print and colour blindness.

set encoding utf8
set datafile separator "\t"
set datafile commentschars "#"

FONT = "DejaVu Sans"
INK = "#222222"
FAINT = "#dddddd"
RED = "#b3001b"

# Order of sim/plan/tags.h. Lightness: 19 51 81 65 30 90 46, then the allocator's cache 81 and the overhead 57.
memory_names = "parameters gradients optimizer activations boundary workspace communication"
array memory_colours[9] = ["#1b2a5c", "#2f7fb8", "#a6d0ee", "#e0891a", "#7d2f12", "#f6e3a8", "#1f7a5c", "#cacaca", "#8a8a8a"]
# Lightness: 33 81 58 91 46 63
array time_colours[6] = ["#1b4f8a", "#a6d0ee", "#d9730d", "#e6e6e6", "#1f7a5c", "#9a9a9a"]
# forward backward weight recompute optimizer communication; lightness: 33 78 89 58 25 65
array span_colours[6] = ["#1b4f8a", "#8ccfb6", "#f3e08c", "#8e84c2", "#6b2412", "#e0891a"]
array span_text_colours[6] = ["#ffffff", "#000000", "#000000", "#000000", "#ffffff", "#000000"]
# Plans: dark and light by turns; from the ninth on they return with another dash.
array plan_colours[8] = ["#1b4f8a", "#e0891a", "#1f7a5c", "#b3458f", "#4aa3df", "#7d2f12", "#9aa51b", "#555555"]

time_unit(s) = s >= 1 ? "s" : s >= 1e-3 ? "ms" : s >= 1e-6 ? "us" : s >= 1e-9 ? "ns" : "ps"
time_size(s) = s >= 1 ? 1.0 : s >= 1e-3 ? 1e-3 : s >= 1e-6 ? 1e-6 : s >= 1e-9 ? 1e-9 : 1e-12
bytes_unit(b) = b >= 2.0**40 ? "TiB" : b >= 2.0**30 ? "GiB" : b >= 2.0**20 ? "MiB" : b >= 2.0**10 ? "KiB" : "B"
bytes_size(b) = b >= 2.0**40 ? 2.0**40 : b >= 2.0**30 ? 2.0**30 : b >= 2.0**20 ? 2.0**20 : b >= 2.0**10 ? 2.0**10 : 1.0
# "79.15 GiB": four significant digits, no exponent.
digits(v) = v >= 999.95 ? sprintf("%.0f", v) : sprintf("%.4g", v)
bytes_text(b) = digits(b / bytes_size(b)) . " " . bytes_unit(b)
time_text(s) = s == 0 ? "0 s" : digits(s / time_size(s)) . " " . time_unit(s)
least(a, b) = a < b ? a : b
most(a, b) = a > b ? a : b
# One class of equal GPUs: "rank 3 x8".
class_name(rank, count) = sprintf(count > 1 ? "rank %d x%d" : "rank %d", rank, count)
# Long words lose their middle.
shorten(word, n) = strlen(word) <= n ? word : word[1:n/2-1] . ".." . word[strlen(word)-n/2+2:*]

# The title begins at the left edge of the picture, so that it has all of its width.
set tmargin 3.2
set_title = 'set label 99 shorten(argv_title, int(WIDTH / 9) - 4) at screen 0.02, screen 1 offset 0, -1.3 left noenhanced font FONT.",15" textcolor rgb INK'

# Pictures: WIDTH and HEIGHT in px of the SVG; the PNG has twice as many. A figure ends with
#   eval begin_picture; plot ...; eval end_picture
WIDTH = 900
HEIGHT = 480
begin_picture = set_title . '; set terminal svg size WIDTH,HEIGHT font FONT.",13" noenhanced rounded background "#ffffff" dashlength 0.6; set output argv_out.".svg"'
end_picture = 'set terminal pngcairo size 2*WIDTH,2*HEIGHT font FONT.",13" fontscale 2 linewidth 2 pointscale 2 dashlength 0.6 noenhanced rounded background "#ffffff"; set output argv_out.".png"; replot; unset output'

set format x "%g"
set format y "%g"
set border 3 linecolor rgb INK linewidth 0.8
set tics nomirror textcolor rgb INK
set xtics out scale 0.5
set ytics out scale 0.5
set grid ytics linecolor rgb FAINT linewidth 0.6 linetype 1
set key outside right top Left reverse samplen 1.5 width 1 spacing 1.25 textcolor rgb INK noenhanced
set style fill solid 1.0 noborder
