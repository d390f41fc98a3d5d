# SPDX-License-Identifier: MIT
# Loss over the steps under several update rules: a line for the mean over the seeds, a band from the lowest to the highest.
# DATA: step, then three columns for each rule: mean, lowest, highest; names in the first line. ARG4: number of rules.
argv_data = ARG1
argv_out = ARG2
argv_title = ARG3
n_rules = int(ARG4)
load ARG0[1:strlen(ARG0)-strlen("converge.gp")] . "style.gp"

WIDTH = 900
HEIGHT = 480
least_loss = 1e300
greatest_loss = 0.0
do for [r=1:n_rules] {
  stats argv_data skip 1 using (column(3 * r)) name "L" nooutput
  if (L_min > 0) { least_loss = least(least_loss, L_min) }
  stats argv_data skip 1 using (column(3 * r + 1)) name "H" nooutput
  greatest_loss = most(greatest_loss, H_max)
}
if (greatest_loss > 20 * least_loss) { set logscale y 10 }
set xlabel "step"
set ylabel "loss of a step's batch"
set key title "lines: mean of the seeds,\nbands: lowest to highest" left
set style fill transparent solid 0.15 noborder
eval begin_picture
plot for [r=1:n_rules] argv_data skip 1 using 1:(column(3 * r)):(column(3 * r + 1)) with filledcurves linecolor rgb plan_colours[r] notitle, \
     for [r=1:n_rules] argv_data using 1:(column(3 * r - 1)) with lines linewidth 2 linecolor rgb plan_colours[r] \
       dashtype r title columnheader(3 * r - 1)
eval end_picture
