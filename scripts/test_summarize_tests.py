import unittest

from summarize_tests import summarize

CARGO = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
BROKEN = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"


class Summary(unittest.TestCase):
    def test_runs_add_up(self):
        self.assertEqual(summarize(CARGO + BROKEN), (8, 2, 1))

    def test_unittest_counts_too(self):
        self.assertEqual(summarize(CARGO + "Ran 9 tests in 0.1s\n\nOK\n"), (14, 0, 1))
        self.assertEqual(summarize("Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"), (5, 3, 1))

    def test_pytest_counts_too(self):
        self.assertEqual(summarize(CARGO + "198 passed, 3 skipped, 2 warnings in 139.04s (0:02:19)\n"), (203, 0, 4))
        self.assertEqual(summarize("==== 1 failed, 7 passed, 1 error in 0.5s ====\n"), (7, 2, 0))
        self.assertEqual(summarize("3 errors in 0.40s\n"), (0, 3, 0))

    def test_nothing_is_nothing(self):
        self.assertEqual(summarize("error: could not compile"), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
