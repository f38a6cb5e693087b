//go:build unix

package emulator_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// crashChildEnv carries a crashOrder to the child: this test binary, run again.
const crashChildEnv = "PERCOLATOR_TEST_CRASH_CHILD"

// crashPipe is the child's descriptor for its reports.
const crashPipe = 3

// crashOrder is what the child does.
type crashOrder struct {
	At              percolatortest.Location
	Scenario, Fault string
	Prefix          string // of the rows
	Role, Where     string // of the target
	Nth             int
}

// crashReport is a line from the child: that it waits at its target, or how the transaction ended.
type crashReport struct {
	Start  tso.Timestamp // 0 before there is one
	Waits  bool
	Commit tso.Timestamp
	Took   time.Duration
	Read   map[string]string

	Conflict, Unknown bool   // what errors.Is says of the error
	Error             string // what the client was told
}

// result is what the child's client was told.
func (r crashReport) result() result {
	told := result{ts: r.Commit, attempts: 1, took: r.Took}
	if r.Error != "" {
		told.err = errors.New(r.Error)
	}
	if r.Conflict {
		told.err = errors.Join(told.err, percolator.ErrConflict)
	}
	if r.Unknown {
		told.err = errors.Join(told.err, percolator.ErrOutcomeUnknown)
	}
	return told
}

// TestCrashChild is the child; in any other process it has nothing to do. At its target it waits
// for a line from its parent.
func TestCrashChild(t *testing.T) {
	encoded := os.Getenv(crashChildEnv)
	if encoded == "" {
		return
	}
	var order crashOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		t.Fatal(err)
	}
	s := scenarios()[slices.IndexFunc(scenarios(), func(s *scenario) bool { return s.name == order.Scenario })]
	f := processFaults()[slices.IndexFunc(processFaults(), func(f *fault) bool { return f.name == order.Fault })]
	m := &matrixEnv{Env: percolatortest.Join(t, order.At)}
	x := m.emptyRun(t, s, f.sequential, order.Prefix)
	x.target = requestID{order.Role, order.Where, order.Nth}
	x.connect()
	x.watch(actionsOf(x, f))
	x.send(x.transact)

	reports := json.NewEncoder(os.NewFile(crashPipe, "reports"))
	say := func(r crashReport) {
		if err := reports.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	x.hold.Wait(t, 1)
	say(crashReport{Start: x.startTS(), Waits: true})
	if !bufio.NewScanner(os.Stdin).Scan() {
		t.Fatal("the parent is gone")
	}
	x.resume()
	told := <-x.done
	report := crashReport{Start: x.startTS(), Commit: told.ts, Took: told.took, Read: x.read}
	if err := told.err; err != nil {
		report.Error = err.Error()
		report.Conflict, report.Unknown = errors.Is(err, percolator.ErrConflict), errors.Is(err, percolator.ErrOutcomeUnknown)
	}
	say(report)
	if err := x.client.Close(); err != nil { // phase two
		t.Error(err)
	}
}
