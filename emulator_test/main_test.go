// Package emulator_test runs the protocol as a program meets it: the isolation levels of the
// literature case by case, Figure 4 of the paper cell by cell, processes that are killed. The
// output says which emulator it was:
//
//  1. the one that BIGTABLE_EMULATOR_HOST (host:port) names, when it is set;
//  2. else, with PERCOLATOR_TEST_EMULATOR = "gcloud", gcloud's cbtemulator, if there is one: in
//     PATH, or in the gcloud SDK (CLOUDSDK_ROOT_DIR, or where the command gcloud is installed);
//  3. without it, or with "module", the same emulator, built from the module that go.mod requires
//     as a tool;
//  4. else package emulator in this process, which refuses what the service refuses.
//
// The first three are Google's own, in a process of its own, and have a defect that package
// emulator repairs: a row read may miss or repeat an unchanged column while another qualifier of
// the same family and row is being added or erased (with gcloud SDK 528 in about one of 20,000
// reads under heavy toggling). These tests do not depend on it: a row of theirs has one column
// only, whose qualifier is then the only one in each family.
package emulator_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var (
	storeAddr    string // the host:port of the emulator
	storeOutside bool   // it is another process
)

// virtually runs a test in virtual time, on a store of its own. A store in another process lives in
// real time: where one is asked for, the test runs on that.
func virtually(t *testing.T, test func(t *testing.T, at ...percolatortest.Option)) {
	t.Helper()
	if storeOutside {
		test(t, percolatortest.Address(storeAddr))
		return
	}
	percolatortest.Bubble(t, func(t *testing.T) { test(t) })
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	s, err := startStore(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulator_test:", err)
		return 1
	}
	defer s.stop()
	fmt.Printf("emulator_test: using %s at %s\n", s.name, s.addr)
	storeAddr, storeOutside = s.addr, s.outside
	return m.Run()
}
