/* SPDX-License-Identifier: MIT */
/* The same networks in SimGrid (fluid, max-min, network/optim:Full) and here: usage simgrid-check ring | bottleneck |
 * all-to-all. Ends agree to nine digits, or the exit status is 1. */
#include <glib.h>
extern "C"
{
#include "psi-links.h"
}
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

/* A flow that starts once another has ended (-1: at 0), after a latency, over some links. */
struct Flow
{
  double bytes;
  int after;
  std::vector<int> links;
};

struct Network
{
  std::vector<double> rates;
  double latency_s;
  std::vector<Flow> flows;
};

/* W1: `n` ranks, message s + 1 of a rank after message s has come to it. */
static Network
ring (int n)
{
  Network net = { std::vector<double> (n, 50e9), 500e-9, {} };

  for (int s = 0; s < 2 * (n - 1); s++)
    for (int r = 0; r < n; r++)
      net.flows.push_back ({ 204800, s > 0 ? (s - 1) * n + (r + n - 1) % n : -1, { r } });
  return net;
}

/* W4: n senders of k messages, back to back, private links and a shared one. */
static Network
bottleneck (int n, int k)
{
  Network net = { std::vector<double> (n + 1, 50e9), 1.5e-6, {} };

  for (int i = 0; i < n; i++)
    {
      std::mt19937_64 random (2 * i);
      std::uniform_real_distribution<double> share (0.5, 1.5);

      for (int m = 0; m < k; m++)
        net.flows.push_back ({ std::floor (1e8 * share (random)), m > 0 ? (int) net.flows.size () - 1 : -1, { i, n } });
    }
  return net;
}

/* W5: hosts in leaves of 8, up and down links of hosts and leaves. */
static Network
all_to_all (int n)
{
  Network net = { std::vector<double> (2 * n, 50e9), 500e-9, {} };
  std::mt19937_64 random (1);
  std::uniform_real_distribution<double> share (0.5, 1.5);
  int first_leaf = 2 * n;

  net.rates.insert (net.rates.end (), 2 * ((n + 7) / 8), 200e9);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (i != j)
        {
          Flow flow = { std::floor (1e6 * share (random)), -1, { 2 * i, 2 * j + 1 } };

          if (i / 8 != j / 8)
            flow.links.insert (flow.links.end (), { first_leaf + i / 8 * 2, first_leaf + j / 8 * 2 + 1 });
          net.flows.push_back (flow);
        }
  return net;
}

/* Last end, by the engine's links: starts and ends in the order of time. */
static double
psisim_end_s (const Network &net)
{
  PsiLinks *links = psi_links_new ();
  std::vector<std::pair<PsiTime, int> > starts;
  std::vector<std::vector<int> > followers (net.flows.size ());
  const PsiTime latency_ps = psi_time_from_s (net.latency_s);
  PsiTime now_ps = 0;

  for (double rate : net.rates)
    psi_links_add (links, rate);
  for (int f = 0; f < (int) net.flows.size (); f++)
    if (net.flows[f].after < 0)
      starts.push_back ({ latency_ps, f });
    else
      followers[net.flows[f].after].push_back (f);
  std::make_heap (starts.begin (), starts.end (), std::greater<> ());
  for (;;)
    {
      PsiTime next_ps = psi_links_next_ps (links);
      guint64 cookie;

      if (!starts.empty () && starts.front ().first < next_ps)
        {
          auto [time_ps, f] = starts.front ();
          std::vector<PsiLinkUse> uses;

          std::pop_heap (starts.begin (), starts.end (), std::greater<> ());
          starts.pop_back ();
          for (int link : net.flows[f].links)
            uses.push_back ({ (PsiLinkId) link, 1 });
          psi_links_start (links, time_ps, (gint64) net.flows[f].bytes, HUGE_VAL, uses.data (), (guint) uses.size (),
                           (guint64) f);
          continue;
        }
      if (next_ps >= PSI_TIME_MAX)
        break;
      now_ps = next_ps;
      while (psi_links_pop (links, now_ps, &cookie))
        for (int f : followers[cookie])
          {
            starts.push_back ({ now_ps + latency_ps, f });
            std::push_heap (starts.begin (), starts.end (), std::greater<> ());
          }
    }
  psi_links_free (links);
  return psi_time_to_s (now_ps);
}

/* The same by SimGrid: a pair of hosts for each chain of flows over the same links, an actor for each flow. */
static double
simgrid_end_s (const Network &net, int argc, char **argv)
{
  sg::Engine engine (&argc, argv);
  auto *zone = sg::create_full_zone ("zone");
  std::vector<sg::Link *> links;

  for (size_t l = 0; l < net.rates.size (); l++)
    links.push_back (zone->create_link ("l" + std::to_string (l), net.rates[l])->set_latency (0)->seal ());
  std::vector<sg::Host *> from, to;
  std::map<std::vector<int>, int> pairs;
  std::vector<int> pair_of;
  for (const Flow &flow : net.flows)
    {
      auto found = pairs.find (flow.links);

      if (found == pairs.end ())
        {
          int p = (int) from.size ();
          std::vector<sg::LinkInRoute> path;

          /* All latency on a link of its own, that nothing shares and nothing fills. */
          path.push_back (sg::LinkInRoute (
              zone->create_link ("d" + std::to_string (p), 1e15)->set_latency (net.latency_s)->seal ()));
          for (int link : flow.links)
            path.push_back (sg::LinkInRoute (links[link]));
          from.push_back (zone->create_host ("f" + std::to_string (p), 1e9)->seal ());
          to.push_back (zone->create_host ("t" + std::to_string (p), 1e9)->seal ());
          zone->add_route (from[p]->get_netpoint (), to[p]->get_netpoint (), nullptr, nullptr, path, false);
          found = pairs.insert ({ flow.links, p }).first;
        }
      pair_of.push_back (found->second);
    }
  zone->seal ();
  std::vector<sg::SemaphorePtr> ended;
  for (size_t f = 0; f < net.flows.size (); f++)
    ended.push_back (sg::Semaphore::create (0));
  for (size_t f = 0; f < net.flows.size (); f++)
    sg::Actor::create ("a" + std::to_string (f), from[pair_of[f]], [&, f] {
      if (net.flows[f].after >= 0)
        ended[net.flows[f].after]->acquire ();
      sg::Comm::sendto (from[pair_of[f]], to[pair_of[f]], (uint64_t) net.flows[f].bytes);
      ended[f]->release ();
    });
  engine.run ();
  return sg::Engine::get_clock ();
}

int
main (int argc, char **argv)
{
  static const char *const settings[] = { "--cfg=network/model:CM02",       "--cfg=network/crosstraffic:0",
                                          "--cfg=network/TCP-gamma:0",      "--cfg=network/optim:Full",
                                          "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
                                          "--cfg=maxmin/precision:1e-9",    "--cfg=surf/precision:1e-13",
                                          "--log=root.thres:critical" };
  std::string name = argc > 1 ? argv[1] : "ring";
  Network net = name == "ring" ? ring (16) : name == "bottleneck" ? bottleneck (32, 10) : all_to_all (16);
  std::vector<char *> arguments = { argv[0] };

  for (const char *setting : settings)
    arguments.push_back (const_cast<char *> (setting));
  double ours_s = psisim_end_s (net), theirs_s = simgrid_end_s (net, (int) arguments.size (), arguments.data ());
  printf ("%s: psisim %.15g s, SimGrid %.15g s\n", name.c_str (), ours_s, theirs_s);
  return std::fabs (ours_s / theirs_s - 1) < 1e-9 ? 0 : 1;
}
