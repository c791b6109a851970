# SPDX-License-Identifier: Apache-2.0
"""cmake/targets.cmake: which one instruction set vector code is compiled for,
by what is asked and what processor there is."""

import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "cmake/targets.cmake"
SSE4 = "fpu ssse3 sse4_1 sse4_2 pclmulqdq aes"
AVX2 = f"{SSE4} avx avx2 abm bmi1 bmi2 fma f16c"
AVX3 = f"{AVX2} avx512f avx512dq avx512cd avx512bw avx512vl avx512_vnni"


def cpuinfo(flags):
    return ("processor\t: 0\nvmx flags\t: avx512f\n"
            f"flags\t\t: {flags}\nbugs\t\t: none [of; these]\n\n"
            "processor\t: 1\nflags\t\t: fpu\n")


def one_target(targets, text):
    """(exit status, what is chosen, errors) where /proc/cpuinfo is this."""
    with tempfile.TemporaryDirectory() as folder:
        info = pathlib.Path(folder) / "cpuinfo"
        info.write_text(text)
        script = pathlib.Path(folder) / "script.cmake"
        script.write_text(f'include("{SOURCE}")\n'
                          f'file(READ "{info}" cpuinfo)\n'
                          f'flashacl_one_target(one "{targets}" "${{cpuinfo}}")\n'
                          'message(STATUS "<${one}>")\n')
        done = subprocess.run(["cmake", "-P", script], capture_output=True,
                              text=True)
    return done.returncode, done.stdout.strip(), done.stderr


class OneTarget(unittest.TestCase):
    def test_native_is_the_best_that_the_processor_has(self):
        for flags, best in ((SSE4, "SSE4"), (AVX2, "AVX2"), (AVX3, "AVX3"),
                            (AVX2 + " avx512f", "AVX2"),
                            (AVX3.replace(" fma", ""), "SSE4")):
            self.assertEqual(one_target("native", cpuinfo(flags)),
                             (0, f"-- <{best}>", ""), flags)

    def test_all_is_what_an_unknown_processor_gets(self):
        for text in ("", cpuinfo("fpu sse2"),
                     "processor\t: 0\nFeatures\t: fp asimd\n"):
            self.assertEqual(one_target("native", text), (0, "-- <>", ""))

    def test_what_is_named_is_taken_whatever_the_processor(self):
        for name in ("SSE4", "AVX2", "AVX3"):
            self.assertEqual(one_target(name, cpuinfo(SSE4)),
                             (0, f"-- <{name}>", ""))
        self.assertEqual(one_target("all", cpuinfo(AVX3)), (0, "-- <>", ""))

    def test_others_are_refused_by_name(self):
        for name in ("AVX3_DL", "avx2", ""):
            status, _, errors = one_target(name, cpuinfo(AVX3))
            self.assertNotEqual(status, 0)
            self.assertIn(f"FLASHACL_TARGETS is {name};", errors)


if __name__ == "__main__":
    unittest.main()
