/* SPDX-License-Identifier: MIT */
/* Machine files: one table row for each key says where its value goes, what it may be and in which unit; reading,
 * ranges and error texts all follow the table. */

#include "machine.h"

#include "machine-keys.h"
#include "machine-profile.h"

#include "data-dirs.h"
#include "nearest.h"
#include "psi-time.h"

#include <math.h>
#include <string.h>

#define SUFFIX ".machine"
#define PROFILE_SUFFIX ".json"

G_DEFINE_QUARK (psi_machine_error, psi_machine_error)

static const struct
{
  const char *alias, *name;
} aliases[] = {
  { "v100", "v100-sxm-32" }, { "a100", "a100-sxm-80" }, { "h100", "h100-sxm-80" },
  { "h200", "h200-sxm" },    { "b200", "b200-sxm" },
};

void
psi_machine_free (PsiMachine *machine)
{
  if (!machine)
    return;
  g_free (machine->name);
  g_free (machine->description);
  g_free (machine->kind);
  g_free (machine->node_source);
  g_free (machine->gpu.name);
  g_free (machine->gpu.source);
  g_free (machine->host.source);
  g_free (machine->intra.name);
  g_free (machine->intra.source);
  g_free (machine->inter.name);
  g_free (machine->inter.source);
  if (machine->networks)
    g_array_unref (machine->networks);
  g_free (machine->profile_file);
  psi_profile_free (machine->profile);
  g_free (machine);
}

/* Made from the figures, so that it cannot disagree with them. */
static char *
describe (const PsiMachine *machine)
{
  GString *line = g_string_new (machine->gpu.name);
  if (machine->gpu.memory_bytes < 0)
    g_string_append (line, ", memory without end");
  else
    g_string_append_printf (line, ", %.1f GiB", (double) machine->gpu.memory_bytes / (1 << 30));
  double half = MAX (machine->gpu.peak_flops[PSI_DTYPE_BF16], machine->gpu.peak_flops[PSI_DTYPE_FP16]);
  double rate = half > 0 ? half : machine->gpu.peak_flops[PSI_DTYPE_FP32];
  g_string_append_printf (line, ", %g TFLOP/s %s", rate / 1e12, half > 0 ? "16-bit" : "fp32");
  if (machine->ideal)
    g_string_append (line, ", links that take no time");
  else
    g_string_append_printf (line, "; %u a node, %s %g GB/s; %s %g Gb/s", machine->gpus_per_node, machine->intra.name,
                            machine->intra.bytes_per_s / 1e9, machine->inter.name, machine->inter.bytes_per_s / 125e6);
  return g_string_free (line, FALSE);
}

/* Links nobody describes because they take no time. */
static void
set_ideal_link (PsiLink *link, const char *name, PsiLinkKind kind)
{
  link->name = g_strdup (name);
  link->kind = kind;
  link->bytes_per_s = INFINITY;
  link->efficiency = 1;
  link->oversubscription = 1;
  link->source = g_strdup ("ideal");
}

static void
link_clear (PsiLink *link)
{
  g_free (link->name);
  g_free (link->source);
}

static gboolean
read_link (PsiMachine *machine, GKeyFile *file, const char *group, const char *where, GError **error)
{
  PsiLink link = { 0 };
  const char *name = group + strlen ("link ");
  gboolean ok = psi_machine_keys_read (file, group, "link", &link, where, error);
  PsiLink *place = link.kind == PSI_LINK_NETWORK ? &machine->inter : &machine->intra;
  if (ok && place->name && link.kind == PSI_LINK_NETWORK)
    {
      if (!machine->networks)
        {
          machine->networks = g_array_new (FALSE, FALSE, sizeof (PsiLink));
          g_array_set_clear_func (machine->networks, (GDestroyNotify) link_clear);
        }
      link.name = g_strdup (name);
      g_array_append_val (machine->networks, link);
      return TRUE;
    }
  if (ok && place->name)
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                   "%s: [%s] kind: '%s' is a second link inside the node after [link %s] (allowed: one, and networks)",
                   where, group, psi_machine_keys_choice ("link", "kind", link.kind), place->name);
      ok = FALSE;
    }
  if (!ok)
    {
      g_free (link.source);
      return FALSE;
    }
  link.name = g_strdup (name);
  *place = link;
  return TRUE;
}

static gboolean
read_groups (PsiMachine *machine, GKeyFile *file, const char *where, GError **error)
{
  if (!psi_machine_keys_read (file, "gpu", "gpu", machine, where, error) ||
      !psi_machine_keys_read (file, "host", "host", machine, where, error) ||
      !psi_machine_keys_read (file, "node", "node", machine, where, error))
    return FALSE;

  g_auto (GStrv) groups = g_key_file_get_groups (file, NULL);
  for (char **group = groups; *group; group++)
    {
      if (g_str_equal (*group, "gpu") || g_str_equal (*group, "host") || g_str_equal (*group, "node"))
        continue;
      if (!g_str_has_prefix (*group, "link ") || (*group)[5] == '\0')
        {
          g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                       "%s: unknown group [%s] (allowed: [gpu] [host] [node] [link NAME])", where, *group);
          return FALSE;
        }
      if (machine->ideal)
        {
          g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                       "%s: [%s] stands beside [node] ideal = yes (allowed: no links, they take no time)", where,
                       *group);
          return FALSE;
        }
      if (!read_link (machine, file, *group, where, error))
        return FALSE;
    }
  return TRUE;
}

/* What no single key can say. */
static gboolean
check_machine (PsiMachine *machine, const char *where, GError **error)
{
  gboolean any = FALSE;
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    any = any || machine->gpu.peak_flops[i] > 0;
  if (!any)
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                   "%s: [gpu] has no rate (allowed: one or more of fp32 tf32 fp16 bf16 fp8 mxfp8 nvfp4)", where);
      return FALSE;
    }
  if (machine->ideal && machine->gpu.memory_bytes >= 0)
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                   "%s: [node] ideal: 'yes' needs memory without end (allowed: [gpu] memory = unlimited)", where);
      return FALSE;
    }
  if (!machine->ideal && (!machine->intra.name || !machine->inter.name))
    {
      g_set_error (
          error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
          "%s: no [link NAME] %s (allowed: one of kind nvlink, pcie or memory and one of kind network, or [node] "
          "ideal = yes)",
          where, machine->intra.name ? "between nodes" : "inside the node");
      return FALSE;
    }
  return TRUE;
}

/* [gpu] profile, relative to the machine file. */
static gboolean
read_profile (PsiMachine *machine, const char *path, const char *where, GError **error)
{
  g_autofree char *folder = g_path_get_dirname (path);
  g_autofree char *file = g_path_is_absolute (machine->profile_file)
                              ? g_strdup (machine->profile_file)
                              : g_build_filename (folder, machine->profile_file, NULL);
  PsiProfile *profile = psi_profile_load (file, error);
  if (!profile)
    {
      g_prefix_error (error, "%s: [gpu] profile: ", where);
      return FALSE;
    }
  psi_machine_take_profile (machine, profile);
  return TRUE;
}

static PsiMachine *
load_profile (const char *path, GError **error)
{
  PsiMachine *machine = psi_machine_from_profile (path, error);
  if (machine)
    {
      g_free (machine->description);
      machine->description = describe (machine);
    }
  return machine;
}

static PsiMachine *
load_file (const char *path, const char *where, GError **error)
{
  g_autoptr (GKeyFile) file = psi_machine_keys_open (path, where, error);
  if (!file)
    return NULL;

  g_autoptr (PsiMachine) machine = g_new0 (PsiMachine, 1);
  if (!read_groups (machine, file, where, error) || !check_machine (machine, where, error))
    return NULL;
  if (machine->ideal)
    {
      set_ideal_link (&machine->intra, "ideal", PSI_LINK_NVLINK);
      set_ideal_link (&machine->inter, "ideal", PSI_LINK_NETWORK);
    }
  if (machine->profile_file && !read_profile (machine, path, where, error))
    return NULL;

  machine->name = g_path_get_basename (path);
  if (g_str_has_suffix (machine->name, SUFFIX))
    machine->name[strlen (machine->name) - strlen (SUFFIX)] = '\0';
  machine->description = describe (machine);
  return g_steal_pointer (&machine);
}

static char *
find_preset (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (aliases); i++)
    if (g_str_equal (name, aliases[i].alias))
      name = aliases[i].name;
  g_autofree char *file = g_strconcat (name, SUFFIX, NULL);
  return psi_data_find ("machines", file);
}

static void
set_unknown (GError **error, const char *name)
{
  g_auto (GStrv) presets = psi_data_list ("machines", SUFFIX);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (char **preset = presets; *preset; preset++)
    g_ptr_array_add (names, *preset);
  for (guint i = 0; i < G_N_ELEMENTS (aliases); i++)
    g_ptr_array_add (names, (gpointer) aliases[i].alias);
  g_ptr_array_add (names, NULL);

  const char *near = psi_nearest (name, (const char *const *) names->pdata);
  if (near)
    g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_UNKNOWN, "unknown machine '%s' (did you mean '%s'?)", name,
                 near);
  else
    {
      g_autofree char *all = g_strjoinv (" ", (char **) names->pdata);
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_UNKNOWN,
                   "unknown machine '%s' (allowed: a file, or one of: %s)", name, all);
    }
}

PsiMachine *
psi_machine_load (const char *name_or_path, GError **error)
{
  g_autofree char *preset = find_preset (name_or_path);
  if (preset)
    return load_file (preset, preset, error);
  if (g_str_has_suffix (name_or_path, PROFILE_SUFFIX))
    return load_profile (name_or_path, error);
  if (g_file_test (name_or_path, G_FILE_TEST_IS_REGULAR))
    return load_file (name_or_path, name_or_path, error);
  if (strchr (name_or_path, '/') || g_str_has_suffix (name_or_path, SUFFIX))
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_UNKNOWN, "no machine file '%s'", name_or_path);
      return NULL;
    }
  set_unknown (error, name_or_path);
  return NULL;
}

gboolean
psi_machine_choose_network (PsiMachine *machine, const char *name, GError **error)
{
  g_autoptr (GString) names = g_string_new (machine->inter.name);

  if (g_str_equal (machine->inter.name, name))
    return TRUE;
  for (guint i = 0; machine->networks && i < machine->networks->len; i++)
    {
      PsiLink *other = &g_array_index (machine->networks, PsiLink, i);
      PsiLink was = machine->inter;

      g_string_append_printf (names, " %s", other->name);
      if (!g_str_equal (other->name, name))
        continue;
      machine->inter = *other;
      *other = was;
      g_free (machine->description);
      machine->description = describe (machine);
      return TRUE;
    }
  g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE, "'%s' has no network '%s' (allowed: %s)",
               machine->name, name, names->str);
  return FALSE;
}

void
psi_machine_override (PsiMachine *machine, guint gpus_per_node, double internode_bytes_per_s)
{
  if (gpus_per_node)
    {
      /* Adapters come with the GPUs: a node of half the GPUs has half of them. */
      if (machine->inter.nics_per_node)
        machine->inter.nics_per_node =
            MAX (1, (guint) ((guint64) machine->inter.nics_per_node * gpus_per_node / MAX (machine->gpus_per_node, 1)));
      machine->gpus_per_node = gpus_per_node;
    }
  if (internode_bytes_per_s > 0 && !machine->ideal)
    {
      machine->inter.bytes_per_s = internode_bytes_per_s;
      machine->inter.nics_per_node = 0;
      machine->inter.oversubscription = 1;
    }
  g_free (machine->description);
  machine->description = describe (machine);
}

void
psi_machine_scale_links (PsiMachine *machine, double inside, double between)
{
  machine->intra.bytes_per_s *= inside;
  machine->intra.uplink_bytes_per_s *= inside;
  machine->inter.bytes_per_s *= between;
}

static void
entry_free (gpointer data)
{
  PsiMachineEntry *entry = data;
  g_free (entry->name);
  g_free (entry->summary);
  g_free (entry);
}

static void
add_entry (GPtrArray *entries, const char *name, char *summary)
{
  PsiMachineEntry *entry = g_new (PsiMachineEntry, 1);
  entry->name = g_strdup (name);
  entry->summary = summary;
  g_ptr_array_add (entries, entry);
}

/* The description, and the networks that there could be instead. */
static char *
summarize (const PsiMachine *machine)
{
  GString *text = g_string_new (machine->description);

  for (guint i = 0; machine->networks && i < machine->networks->len; i++)
    g_string_append_printf (text, ", or %s", g_array_index (machine->networks, PsiLink, i).name);
  return g_string_free (text, FALSE);
}

GPtrArray *
psi_machine_list (void)
{
  GPtrArray *entries = g_ptr_array_new_with_free_func (entry_free);
  g_auto (GStrv) presets = psi_data_list ("machines", SUFFIX);
  for (char **preset = presets; *preset; preset++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiMachine) machine = psi_machine_load (*preset, &error);
      add_entry (entries, *preset, machine ? summarize (machine) : g_strdup (error->message));
    }
  for (guint i = 0; i < G_N_ELEMENTS (aliases); i++)
    add_entry (entries, aliases[i].alias, g_strconcat ("= ", aliases[i].name, NULL));
  return entries;
}
