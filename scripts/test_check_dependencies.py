"""Rules of deny.toml without cargo-deny."""

import unittest

from check_dependencies import REGISTRY, allows, breaches

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
RULES = {"licenses": {"allow": sorted(ALLOWED)}, "bans": {"deny": [{"crate": "cmake", "reason": "not everywhere"}]}}


def package(**changes) -> dict:
    return {"name": "a", "version": "1.0.0", "source": REGISTRY, "license": "MIT", "dependencies": []} | changes


class Licences(unittest.TestCase):
    def test_expressions(self):
        for good in ("MIT", "MIT OR GPL-3.0", "MIT/GPL-3.0", "MIT AND Apache-2.0", "(GPL-3.0 OR MIT) AND Apache-2.0",
                     "Apache-2.0 WITH LLVM-exception", "GPL-3.0 OR (Apache-2.0 WITH LLVM-exception AND MIT)"):
            self.assertTrue(allows(good, ALLOWED), good)
        for bad in ("", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH LLVM-exception", "(MIT", "MIT GPL-3.0", "__import__('os')"):
            self.assertFalse(allows(bad, ALLOWED), bad)


class Breaches(unittest.TestCase):
    def test_each_rule(self):
        self.assertEqual(breaches([package(), package(source=None)], RULES), [])
        for changes, said in (({"license": None}, "licence"), ({"license": "GPL-3.0"}, "licence"), ({"name": "cmake"}, "not everywhere"),
                              ({"source": "git+https://example.org/a"}, "comes from"),
                              ({"source": None, "dependencies": [{"name": "b", "req": "*"}]}, "any version of b")):
            (found,) = breaches([package(**changes)], RULES)
            self.assertIn(said, found)
        self.assertEqual(breaches([package(source=None, dependencies=[{"name": "b", "req": "*", "path": "../b"}])], RULES), [])


if __name__ == "__main__":
    unittest.main()
