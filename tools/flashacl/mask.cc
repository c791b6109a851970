// SPDX-License-Identifier: Apache-2.0
// flashacl mask: a picture of who sees whom.
#include <charconv>
#include <memory>

#include "base/str.h"
#include "problem/notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/picture.h"
#include "tools/flashacl/sparse_mode.h"

namespace flashacl::tool {
namespace {

struct MaskOptions {
  std::vector<std::string> words;
  std::string png;
  std::string tile;
  size_t sequence = 0;
  SparseMode sparse;
};

// Lengths and rule of every sequence, whoever stated them.
struct Masks {
  std::vector<Sequence> sequences;
  Mask mask;
  std::string_view besides;  // what no picture of a rule can show
};

Status ParseTile(const std::string& text, Picture& picture) {
  if (text.empty()) return {};
  const char* end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, picture.tile_rows);
  if (rows.ec == std::errc() && rows.ptr != end && *rows.ptr == 'x') {
    const auto cols = std::from_chars(rows.ptr + 1, end, picture.tile_cols);
    if (cols.ec == std::errc() && cols.ptr == end && picture.tile_rows > 0 &&
        picture.tile_cols > 0) {
      return {};
    }
  }
  return Invalid("--tile: \"{}\" is not ROWSxCOLUMNS, e.g. 64x64", text);
}

Result<Masks> FromLine(const std::string& line) {
  Result<AttentionProblem> problem = Parse(line);
  if (!problem.ok()) return problem.status();
  std::string_view besides;
  if (problem->has(Slot::kMask)) {
    besides = "besides, the mask tensor hides what it hides";
  } else if (problem->has(Slot::kTopK)) {
    besides = "of these, a row sees only what its top-k list names";
  } else if (!problem->lengths.known()) {
    besides = "lengths come with the run: this is the longest they may be";
  }
  return Masks{std::move(problem->lengths.sequences), std::move(problem->mask),
               besides};
}

Result<Masks> FromSparseMode(SparseMode sparse) {
  if (sparse.rows.empty() || sparse.columns.empty()) {
    return Invalid("--sparse-mode: --sq and --skv say how long sequences are");
  }
  const size_t count = std::max(sparse.rows.size(), sparse.columns.size());
  if (sparse.rows.size() == 1) sparse.rows.resize(count, sparse.rows[0]);
  if (sparse.columns.size() == 1) {
    sparse.columns.resize(count, sparse.columns[0]);
  }
  if (sparse.rows.size() != sparse.columns.size()) {
    return Invalid("--sq: {} lengths do not go with the {} of --skv",
                   sparse.rows.size(), sparse.columns.size());
  }
  Masks masks{{}, {}, TensorSentence(sparse.mode)};
  for (size_t b = 0; b < count; ++b) {
    const Result<MaskRule> rule = RuleOf(sparse, b);
    if (!rule.ok()) return rule.status();
    masks.mask.rules.push_back(*rule);
    masks.sequences.push_back({{0, sparse.rows[b]}, {0, sparse.columns[b]}});
  }
  return masks;
}

std::string BandSentence(const Band& band) {
  const bool below = band.lower > -Band::kOpen / 2;
  const bool above = band.upper < Band::kOpen / 2;
  if (!below && !above) return "every row sees every column";
  std::string sentence = "row i sees column j iff ";
  if (below) sentence += Str("{} <= ", band.lower);
  sentence += "j - i";
  if (above) sentence += Str(" <= {}", band.upper);
  if (band.prefix > 0) sentence += Str(", or j < {}", band.prefix);
  return sentence;
}

void Print(const Masks& masks, size_t sequence, const Picture& picture) {
  fmt::print("{}{}\n", DrawText(picture), BandSentence(picture.band));
  if (!masks.besides.empty()) fmt::print("{}\n", masks.besides);
  const size_t count = masks.sequences.size();
  if (count > 1) {
    fmt::print("this is sequence {} of {}; --sequence N shows another\n",
               sequence, count);
  }
}

int DrawMask(const MaskOptions& options) {
  if (options.words.empty() == (options.sparse.mode < 0)) {
    return Mistake(Invalid("mask: give a problem line or --sparse-mode"));
  }
  const Result<Masks> masks = options.words.empty()
                                  ? FromSparseMode(options.sparse)
                                  : FromLine(Join(options.words, " "));
  if (!masks.ok()) return Mistake(masks.status());
  const size_t count = masks->sequences.size();
  if (options.sequence >= count) {
    return Mistake(Invalid("--sequence: {} of {}; the first is 0",
                           options.sequence, count));
  }
  const Sequence& sequence = masks->sequences[options.sequence];
  Picture picture;
  picture.rows = sequence.rows();
  picture.columns = sequence.columns();
  picture.band = masks->mask.BandOf(static_cast<int64_t>(options.sequence),
                                    picture.rows, picture.columns);
  if (Status tile = ParseTile(options.tile, picture); !tile.ok()) {
    return Mistake(tile);
  }
  // A picture on stdout is alone there.
  const bool alone = options.png == "-";
  if (!alone) Print(*masks, options.sequence, picture);
  if (options.png.empty()) return kSuccess;
  const Result<PngSize> size = DrawPng(picture, options.png);
  if (!size.ok()) return Mistake(size.status());
  if (alone) return kSuccess;
  fmt::print("{}: {} x {} pixels\n", options.png, size->width, size->height);
  return kSuccess;
}

void AddSparseMode(CLI::App& app, SparseMode& sparse) {
  const std::string group = "Without a problem, as callers of the C operators";
  app.add_option("--sparse-mode", sparse.mode,
                 "0 band with a mask, 1 mask only, 2 causal from the top left, "
                 "3 causal to the bottom right, 4 band, 5 and 6 prefix, "
                 "7 and 8 causal with one sequence as a band")
      ->check(CLI::Range(0, 8))
      ->type_name("MODE")
      ->group(group);
  const auto add_list = [&](const char* name, std::vector<int64_t>& list,
                            const char* help) {
    app.add_option(name, list, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(AtLeast(0))
        ->type_name("N,...")
        ->group(group);
  };
  add_list("--sq", sparse.rows, "Queries of each sequence");
  add_list("--skv", sparse.columns, "Keys of each sequence");
  add_list("--prefix", sparse.prefix, "Modes 5, 6: keys everybody sees");
  app.add_option("--pre", sparse.pre_tokens,
                 "Modes 0, 4, 7, 8: keys seen before the diagonal")
      ->type_name("N")
      ->group(group);
  app.add_option("--next", sparse.next_tokens, "... and after it")
      ->type_name("N")
      ->group(group);
}

}  // namespace

Command MakeMask(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "mask", "A picture of who sees whom, as text and as PNG");
  auto options = std::make_shared<MaskOptions>();
  app->add_option("line", options->words, std::string(kLineHelp))
      ->type_name("LINE");
  app->add_option("--png", options->png,
                  "Write the picture here, too; - is stdout, and nothing "
                  "else goes there")
      ->type_name("FILE|-");
  app->add_option("--tile", options->tile, "Show tiles, and what is in each")
      ->type_name("ROWSxCOLUMNS");
  app->add_option("--sequence", options->sequence,
                  "Which sequence, if there are several; the first is 0")
      ->type_name("N");
  AddSparseMode(*app, options->sparse);
  return {app, [options] { return DrawMask(*options); }};
}

}  // namespace flashacl::tool
