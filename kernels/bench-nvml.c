/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "bench-nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum
{
  NVML_CLOCK_SM = 1,
  NVML_CLOCK_MEMORY = 2
};

typedef struct
{
  unsigned long long total, free, used;
} NvmlMemory;

static struct
{
  int (*init) (void);
  int (*shutdown) (void);
  int (*handle) (const char *pci_bus_id, void **ret_device);
  int (*memory) (void *device, NvmlMemory *ret_memory);
  int (*clock) (void *device, int type, unsigned *ret_mhz);
  int (*max_clock) (void *device, int type, unsigned *ret_mhz);
  int (*temperature) (void *device, int sensor, unsigned *ret_celsius);
  int (*power) (void *device, unsigned *ret_milliwatts);
  int (*power_limit) (void *device, unsigned *ret_milliwatts);
  int (*throttle) (void *device, unsigned long long *ret_mask);
  int (*driver) (char *ret_text, unsigned length);
  int (*uuid) (void *device, char *ret_text, unsigned length);
  int (*pcie_generation) (void *device, unsigned *ret_generation);
  int (*pcie_width) (void *device, unsigned *ret_width);
  int (*ecc) (void *device, int *ret_current, int *ret_pending);
  int (*mig) (void *device, unsigned *ret_current, unsigned *ret_pending);
} api;

static const struct
{
  void **function;
  const char *name;
} symbols[] = {
  { (void **) &api.init, "nvmlInit_v2" },
  { (void **) &api.shutdown, "nvmlShutdown" },
  { (void **) &api.handle, "nvmlDeviceGetHandleByPciBusId_v2" },
  { (void **) &api.memory, "nvmlDeviceGetMemoryInfo" },
  { (void **) &api.clock, "nvmlDeviceGetClockInfo" },
  { (void **) &api.max_clock, "nvmlDeviceGetMaxClockInfo" },
  { (void **) &api.temperature, "nvmlDeviceGetTemperature" },
  { (void **) &api.power, "nvmlDeviceGetPowerUsage" },
  { (void **) &api.power_limit, "nvmlDeviceGetEnforcedPowerLimit" },
  { (void **) &api.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons" },
  { (void **) &api.driver, "nvmlSystemGetDriverVersion" },
  { (void **) &api.uuid, "nvmlDeviceGetUUID" },
  { (void **) &api.pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration" },
  { (void **) &api.pcie_width, "nvmlDeviceGetMaxPcieLinkWidth" },
  { (void **) &api.ecc, "nvmlDeviceGetEccMode" },
  { (void **) &api.mig, "nvmlDeviceGetMigMode" },
};

bool
bench_nvml_open (BenchNvml *nvml, const char *pci_bus_id)
{
  memset (nvml, 0, sizeof *nvml);
  nvml->library = dlopen ("libnvidia-ml.so.1", RTLD_NOW);
  if (!nvml->library)
    return false;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
    *symbols[i].function = dlsym (nvml->library, symbols[i].name);
  if (!api.init || !api.handle || api.init () || api.handle (pci_bus_id, &nvml->device))
    {
      dlclose (nvml->library);
      nvml->library = NULL;
      return false;
    }
  return true;
}

void
bench_nvml_close (BenchNvml *nvml)
{
  if (!nvml->library)
    return;
  if (api.shutdown)
    api.shutdown ();
  dlclose (nvml->library);
  nvml->library = NULL;
}

double
bench_nvml_used_bytes (const BenchNvml *nvml)
{
  NvmlMemory memory;
  if (!nvml->library || !api.memory || api.memory (nvml->device, &memory))
    return -1;
  return (double) memory.used;
}

unsigned long long
bench_nvml_throttle (const BenchNvml *nvml)
{
  unsigned long long mask = 0;
  if (!nvml->library || !api.throttle || api.throttle (nvml->device, &mask))
    return 0;
  return mask & ~1ull; /* without "the GPU is idle" */
}

/* A number of one device, or NAN if there is no such call. */
static double
device_number (const BenchNvml *nvml, int (*get) (void *device, unsigned *ret_value))
{
  unsigned value;
  return nvml->library && get && !get (nvml->device, &value) ? (double) value : (double) NAN;
}

static double
device_clock_mhz (const BenchNvml *nvml, int (*get) (void *device, int type, unsigned *ret_mhz), int type)
{
  unsigned value;
  return nvml->library && get && !get (nvml->device, type, &value) ? (double) value : (double) NAN;
}

void
bench_nvml_line (const BenchOptions *options, const BenchNvml *nvml, unsigned long long throttle_before)
{
  if (!nvml->library)
    return;
  bench_line_number (options, "sm_mhz", device_clock_mhz (nvml, api.clock, NVML_CLOCK_SM));
  bench_line_number (options, "memory_mhz", device_clock_mhz (nvml, api.clock, NVML_CLOCK_MEMORY));
  bench_line_number (options, "temperature_c", device_clock_mhz (nvml, api.temperature, 0));
  bench_line_number (options, "power_w", device_number (nvml, api.power) * 1e-3);
  bench_line_number (options, "throttle", (double) (bench_nvml_throttle (nvml) | throttle_before));
}

void
bench_nvml_provenance (const BenchOptions *options, const BenchNvml *nvml)
{
  char text[128];
  int current, pending;
  unsigned mig, mig_pending;

  if (!nvml->library)
    {
      bench_line_text (options, "nvml", NULL);
      return;
    }
  if (api.driver && !api.driver (text, sizeof text))
    bench_line_text (options, "driver", text);
  if (api.uuid && !api.uuid (nvml->device, text, sizeof text))
    {
      uint64_t hash = 14695981039346656037ull;
      for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char) *at) * 1099511628211ull;
      snprintf (text, sizeof text, "%016llx", (unsigned long long) hash);
      bench_line_text (options, "uuid_hash", text);
    }
  bench_line_number (options, "max_sm_mhz", device_clock_mhz (nvml, api.max_clock, NVML_CLOCK_SM));
  bench_line_number (options, "max_memory_mhz", device_clock_mhz (nvml, api.max_clock, NVML_CLOCK_MEMORY));
  bench_line_number (options, "power_limit_w", device_number (nvml, api.power_limit) * 1e-3);
  bench_line_number (options, "pcie_generation", device_number (nvml, api.pcie_generation));
  bench_line_number (options, "pcie_width", device_number (nvml, api.pcie_width));
  if (api.ecc && !api.ecc (nvml->device, &current, &pending))
    bench_line_number (options, "ecc", current);
  if (api.mig && !api.mig (nvml->device, &mig, &mig_pending))
    bench_line_number (options, "mig", mig);
}
