/* SPDX-License-Identifier: MIT */
/* The few calls of NVIDIA's management library that a bench needs, with own prototypes (nvml.h is not in every
 * toolkit) and loaded at run time (the library comes with the driver). Without it every call says so and the samples
 * lack clocks, temperature and power. Nothing is ever set. */
#pragma once

#include "bench-common.h"

typedef struct
{
  void *library; /* NULL: not there */
  void *device;
} BenchNvml;

/* Open the GPU with that PCI bus id ("0000:1b:00.0"). FALSE if NVML cannot see it. */
bool bench_nvml_open (BenchNvml *nvml, const char *pci_bus_id);
void bench_nvml_close (BenchNvml *nvml);

/* Device memory in use by everybody, in bytes; -1 = not known. */
double bench_nvml_used_bytes (const BenchNvml *nvml);

/* Reasons for which the clocks are held down right now, a mask (0x4 power cap, 0x8 hardware slowdown, 0x20 and 0x40
 * temperature); 0 = none or not known. */
unsigned long long bench_nvml_throttle (const BenchNvml *nvml);

/* Add sm_mhz, memory_mhz, temperature_c, power_w and throttle to a line. `throttle_before` is or-ed in. */
void bench_nvml_line (const BenchOptions *options, const BenchNvml *nvml, unsigned long long throttle_before);

/* Add driver, uuid_hash, maximum clocks, power limit, PCIe, ECC and MIG to a line. */
void bench_nvml_provenance (const BenchOptions *options, const BenchNvml *nvml);
