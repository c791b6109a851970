// SPDX-License-Identifier: Apache-2.0
// A picture of speeds below the two roofs: how much arithmetic per byte, how
// much arithmetic per second, both logarithmic.
#pragma once

#include <string>
#include <vector>

#include "tools/flashacl/report.h"

namespace flashacl::tool {

struct Roofline {
  struct Point {
    std::string label;
    double intensity = 0;  // FLOP per byte
    double flops = 0;      // per second
  };

  std::string caption;
  double flops_roof = 0;      // FLOP per second
  double bandwidth_roof = 0;  // bytes per second
  std::vector<Point> points;

  // The greatest speed at an intensity.
  double Roof(double intensity) const;
};

// Medians of the roofs over all repetitions, a point per timing.
Roofline RooflineOf(const std::vector<Timing>& timings);

// An SVG document. Points are numbered; a legend beside them says what they are
// and which share of the roof above them they reach. Those without arithmetic
// are left out.
std::string DrawSvg(const Roofline& roofline);

}  // namespace flashacl::tool
