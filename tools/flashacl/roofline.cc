// SPDX-License-Identifier: Apache-2.0
// Writes SVG by hand: lines, circles and text.
#include "tools/flashacl/roofline.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "tools/flashacl/statistics.h"

namespace flashacl::tool {
namespace {

// In pixels: the plot, and the legend on its right.
constexpr double kLeft = 80, kChartTop = 60, kWidth = 640, kHeight = 480;
constexpr double kLegendLeft = kLeft + kWidth + 30;
constexpr double kLegendLine = 17;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        // XML has no place for control characters.
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return escaped;
}

// A logarithmic axis between two powers of ten.
class RoofAxis {
 public:
  RoofAxis(double least, double greatest, double at_least, double at_greatest)
      : first_(std::floor(std::log10(least))),
        last_(std::max(std::ceil(std::log10(greatest)), first_ + 1)),
        at_first_(at_least),
        at_last_(at_greatest) {}

  double At(double value) const {
    return std::lerp(at_first_, at_last_,
                     (std::log10(value) - first_) / (last_ - first_));
  }
  double least() const { return std::pow(10, first_); }
  double greatest() const { return std::pow(10, last_); }

 private:
  double first_, last_;  // exponents
  double at_first_, at_last_;
};

bool Drawable(const Roofline::Point& point) {
  return point.intensity > 0 && point.flops > 0 &&
         std::isfinite(point.intensity) && std::isfinite(point.flops);
}

class Drawing {
 public:
  explicit Drawing(const Roofline& roofline)
      : roofline_(roofline),
        ridge_(roofline.flops_roof / roofline.bandwidth_roof),
        x_(AxisOf(&Roofline::Point::intensity, ridge_, kLeft, kLeft + kWidth)),
        y_(AxisOf(&Roofline::Point::flops, roofline.flops_roof,
                  kChartTop + kHeight, kChartTop)) {}

  std::string Draw() {
    const auto count = static_cast<double>(roofline_.points.size());
    // A letter has about so many pixels; what stands before and after a label.
    constexpr double kLetter = 7.2, kBesides = 45;
    size_t letters = 0;
    for (const Roofline::Point& point : roofline_.points) {
      letters = std::max(letters, point.label.size());
    }
    const double legend = kLetter * (static_cast<double>(letters) + kBesides);
    const double height = std::max(kChartTop + kHeight + 70,
                                   kChartTop + kLegendLine * (count + 2));
    svg_ =
        Str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
            "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            kLegendLeft + legend, height);
    Text(kLeft, 28, "start", roofline_.caption);
    DrawGrid();
    DrawRoofs();
    DrawPoints();
    return svg_ + "</svg>\n";
  }

 private:
  // Holds all points and `also`.
  RoofAxis AxisOf(double Roofline::Point::*side, double also, double at_least,
                  double at_greatest) const {
    double least = also, greatest = also;
    for (const Roofline::Point& point : roofline_.points) {
      if (!Drawable(point)) continue;
      least = std::min(least, point.*side);
      greatest = std::max(greatest, point.*side);
    }
    return {least / 2, greatest * 1.5, at_least, at_greatest};
  }

  void Line(double x1, double y1, double x2, double y2, const char* style) {
    svg_ +=
        Str("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
            "{}/>\n",
            x1, y1, x2, y2, style);
  }

  void Text(double x, double y, const char* anchor, const std::string& text) {
    svg_ +=
        Str("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x,
            y, anchor, Escaped(text));
  }

  void DrawGrid() {
    const double bottom = kChartTop + kHeight, right = kLeft + kWidth;
    constexpr char kStyle[] = "stroke=\"#d5d9de\"";
    for (double x = x_.least(); x < 1.01 * x_.greatest(); x *= 10) {
      Line(x_.At(x), kChartTop, x_.At(x), bottom, kStyle);
      Text(x_.At(x), bottom + 18, "middle", Str("{:g}", x));
    }
    for (double y = y_.least(); y < 1.01 * y_.greatest(); y *= 10) {
      Line(kLeft, y_.At(y), right, y_.At(y), kStyle);
      Text(kLeft - 8, y_.At(y) + 4, "end", Str("{:g}", y / 1e9));
    }
    Text(kLeft + kWidth / 2, bottom + 40, "middle", "FLOP per byte");
    Text(kLeft, kChartTop - 8, "end", "GFLOP/s");
  }

  void DrawRoofs() {
    constexpr char kStyle[] = "stroke=\"#a62b1f\" stroke-width=\"2\"";
    const double top = y_.At(roofline_.flops_roof);
    const double ridge = x_.At(ridge_);
    Line(ridge, top, kLeft + kWidth, top, kStyle);
    Text(kLeft + kWidth - 4, top - 6, "end",
         Str("FMA peak {:.1f} GFLOP/s", roofline_.flops_roof / 1e9));
    // Where the slope enters the picture: at its left or its lower edge.
    const double from =
        std::max(x_.least(), y_.least() / roofline_.bandwidth_roof);
    Line(x_.At(from), y_.At(roofline_.Roof(from)), ridge, top, kStyle);
    // On the right of the slope's middle: above it there may be no room.
    Text((x_.At(from) + ridge) / 2 + 12,
         (y_.At(roofline_.Roof(from)) + top) / 2 + 12, "start",
         Str("read bandwidth {:.1f} GB/s", roofline_.bandwidth_roof / 1e9));
  }

  void DrawPoints() {
    int number = 0;
    double line = kChartTop + kLegendLine;
    for (const Roofline::Point& point : roofline_.points) {
      if (!Drawable(point)) continue;
      ++number;
      const double x = x_.At(point.intensity);
      const double y = y_.At(point.flops);
      svg_ +=
          Str("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"9\" fill=\"#1f5aa6\" "
              "stroke=\"white\"><title>{}</title></circle>\n"
              "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
              "font-size=\"10\" fill=\"white\">{}</text>\n",
              x, y, Escaped(point.label), x, y + 3.5, number);
      Text(kLegendLeft, line, "start",
           Str("{}  {}: {:#.4g} GFLOP/s, {:.2f} of the roof", number,
               point.label, point.flops / 1e9,
               point.flops / roofline_.Roof(point.intensity)));
      line += kLegendLine;
    }
  }

  const Roofline& roofline_;
  const double ridge_;  // intensity from which on bandwidth suffices
  const RoofAxis x_, y_;
  std::string svg_;
};

}  // namespace

double Roofline::Roof(double intensity) const {
  return std::min(flops_roof, intensity * bandwidth_roof);
}

Roofline RooflineOf(const std::vector<Timing>& timings) {
  Roofline roofline;
  std::vector<double> flops, bandwidth;
  for (const Timing& timing : timings) {
    for (const Repetition& one : timing.measurement.repetitions) {
      flops.push_back(one.flops_roof);
      bandwidth.push_back(one.bandwidth_roof);
    }
    const double seconds = Summarise(timing.measurement.Seconds()).median;
    roofline.points.push_back(
        {Str("{} ({})", NameOf(timing.workload), timing.implementation),
         timing.bytes() > 0 ? timing.work.flops / timing.bytes() : 0,
         seconds > 0 ? timing.work.flops / seconds : 0});
  }
  roofline.flops_roof = Summarise(flops).median;
  roofline.bandwidth_roof = Summarise(bandwidth).median;
  if (timings.empty()) return roofline;
  roofline.caption = Str("FlashACL {} on {}, {} threads", FLASHACL_VERSION,
                         CpuBackend().device.name, timings.front().threads);
  return roofline;
}

std::string DrawSvg(const Roofline& roofline) {
  return Drawing(roofline).Draw();
}

}  // namespace flashacl::tool
