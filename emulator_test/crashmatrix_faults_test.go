package emulator_test

import (
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// expectation is what must come of the transaction.
type expectation struct {
	applied bool // it passes the commit point, for everybody and for good
	result  expectedResult
}

// expectedResult is what the client is told.
type expectedResult int

const (
	resultAny      expectedResult = iota // nobody is there to be told; what is told must not be false
	resultSuccess                        // no error
	resultFailure                        // an error that says that nothing was written
	resultConflict                       // ErrConflict: run it again
	resultUnknown                        // ErrOutcomeUnknown, because the context has ended
)

var (
	wantCommit         = expectation{true, resultSuccess}
	wantFailure        = expectation{false, resultFailure}
	wantConflict       = expectation{false, resultConflict}
	wantEither         = expectation{false, resultAny}
	wantUnknownApplied = expectation{true, resultUnknown}
	wantUnknownLost    = expectation{false, resultUnknown}
)

// fault is what happens to a request, or to the client when it comes to it.
type fault struct {
	name       string
	decide     func(x *crashRun, id requestID) percolatortest.Action // about each request of the client
	unfold     func(x *crashRun)                                     // until somebody else comes
	leaves     bool                                                  // something may be left for others to resolve
	sequential bool                                                  // the rows are prewritten one by one, so that it is clear what came before
	rewrites   bool                                                  // the rows are written by others before the rest comes to pass
	without    func(s crashPoint) bool                               // requests that cannot have this fault
	expect     func(s crashPoint, rewritten bool) expectation
	launch     func(x *crashRun, c *matrixCell) victim // runs the transaction in a process of its own
	passed     func(s crashPoint) bool                 // whether the commit point has been passed when somebody else comes; nil: as at the end
}

// expectIn is expect, with regard to the scenario. rewritten: the next actor rewrites the rows.
func (f *fault) expectIn(s *scenario, at crashPoint, rewritten bool) expectation {
	want := f.expect(at, rewritten || f.rewrites)
	if !s.doomed {
		return want
	}
	want.applied = false
	switch want.result {
	case resultSuccess:
		want.result = resultConflict
	case resultAny, resultUnknown: // no commit is ever sent
		want.result = resultFailure
	}
	return want
}

func faults() []*fault {
	return []*fault{
		{
			name: "the client dies before it", leaves: true, unfold: (*crashRun).awaitEnd,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onTarget(id, percolatortest.Crash) },
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantEither, wantCommit) },
		},
		{
			name: "lost once", unfold: (*crashRun).awaitEnd,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				return x.onTarget(id, percolatortest.LoseRequest)
			},
			expect: expectOneLoss,
		},
		{
			name: "its answer lost once", unfold: (*crashRun).awaitEnd,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				return x.onTarget(id, percolatortest.LoseAnswer)
			},
			expect: expectOneLoss,
		},
		{
			name: "delivered twice", unfold: (*crashRun).awaitEnd,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onTarget(id, percolatortest.Duplicate) },
			expect: func(crashPoint, bool) expectation { return wantCommit },
		},
		{
			name: "lost until the context ends", leaves: true, unfold: (*crashRun).awaitEndThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				return x.onEvery(x.isTargetAgain(id), percolatortest.LoseRequest)
			},
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantUnknownLost, wantCommit) },
		},
		{
			name: "its answer lost until the context ends", leaves: true, unfold: (*crashRun).awaitEndThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				return x.onEvery(x.isTargetAgain(id), percolatortest.LoseAnswer)
			},
			// A commit is decided by another request, which gets its answer.
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantCommit, wantCommit) },
		},
		{
			name: "nothing delivered from it on", leaves: true, unfold: (*crashRun).awaitEndThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				return x.onEvery(x.hits > 0 || id == x.target, percolatortest.LoseRequest)
			},
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantUnknownLost, wantCommit) },
		},
		{
			name: "nothing answered from it on", leaves: true, unfold: (*crashRun).awaitEndThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				if id == x.target {
					return x.onEvery(true, percolatortest.LoseAnswer)
				}
				return x.onEvery(x.hits > 0, percolatortest.LoseRequest)
			},
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantUnknownApplied, wantCommit) },
		},
		{
			name: "delivered late, its client dead", leaves: true, rewrites: true, unfold: (*crashRun).awaitHeldThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onHeld(id) },
			expect: func(s crashPoint, _ bool) expectation { return s.pick(wantFailure, wantEither, wantCommit) },
		},
		{
			name: "delivered late, its client waiting", leaves: true, rewrites: true, unfold: (*crashRun).awaitHeld,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onHeld(id) },
			expect: expectHeld, passed: func(s crashPoint) bool { return s.after },
		},
		{
			name: "delivered late over unchanged rows, its client waiting", leaves: true, unfold: (*crashRun).awaitHeld,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onHeld(id) },
			expect: func(s crashPoint, rewritten bool) expectation {
				if s.prewrite { // the others have landed
					return wantConflict
				}
				return expectHeld(s, rewritten)
			},
			passed: func(s crashPoint) bool { return s.after },
		},
		{
			name: "a copy delivered late, after the end", rewrites: true, unfold: (*crashRun).awaitEnd,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.onTarget(id, x.hold.Copy()) },
			expect: func(crashPoint, bool) expectation { return wantCommit },
		},
		{
			name: "a copy delivered late, its client dead", leaves: true, rewrites: true, sequential: true, unfold: (*crashRun).awaitEndThenCrash,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				if x.hits > 0 { // the request after it
					return percolatortest.Crash
				}
				return x.onTarget(id, x.hold.Copy())
			},
			expect: func(s crashPoint, _ bool) expectation {
				if s.last { // the commit is the request that it dies before
					return wantEither
				}
				return s.pick(wantFailure, wantCommit, wantCommit)
			},
		},
		{
			name: "a copy delivered late over unchanged rows, its client stopped", leaves: true, sequential: true, unfold: (*crashRun).awaitHeld,
			decide: func(x *crashRun, id requestID) percolatortest.Action {
				// A request after it, and after the one by which the journal leads a worker to its lock.
				x.appended = x.appended || id.role == roleAppend
				if x.hits == 1 && (x.target.role != "prewrite" || x.scenario.doomed || x.appended && id.where != journalTable) {
					x.noteHit()
					x.faults.Pause()
					return x.hold
				}
				return x.onTarget(id, x.zombie.Copy())
			},
			without: func(s crashPoint) bool { return s.after || s.final || s.journal },
			expect:  expectStoppedAfter,
			passed:  func(s crashPoint) bool { return !s.before },
		},
		{
			name: "the process stopped before it", leaves: true, sequential: true, unfold: (*crashRun).awaitHeld,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.stopAt(id, x.hold) },
			expect: expectHeld, passed: func(s crashPoint) bool { return s.after }, without: crashPoint.amongPrewrites,
		},
		{
			name: "the process stopped after it", leaves: true, sequential: true, unfold: (*crashRun).awaitHeld,
			decide: func(x *crashRun, id requestID) percolatortest.Action { return x.stopAt(id, x.hold.Answer()) },
			expect: expectStoppedAfter, without: crashPoint.amongPrewrites,
			passed: func(s crashPoint) bool { return !s.before },
		},
	}
}

// amongPrewrites: how many rows are locked when it is sent is left to chance.
func (s crashPoint) amongPrewrites() bool { return s.journal }

// expectOneLoss: everything is sent again or decided, but nobody asks the oracle twice.
func expectOneLoss(s crashPoint, _ bool) expectation {
	if s.oracle {
		return wantFailure
	}
	return wantCommit
}

// expectHeld: meanwhile its locks, if it has some, were rolled back, and its rows perhaps
// rewritten. Until it has started it has lost nothing.
func expectHeld(s crashPoint, rewritten bool) expectation {
	if (rewritten && !s.begin || s.locked) && !s.after {
		return wantConflict
	}
	return wantCommit
}

// passedIn tells whether the next actor meets a transaction that has committed.
func (f *fault) passedIn(s *scenario, at crashPoint) bool {
	if f.passed != nil {
		return f.passed(at) && !s.doomed
	}
	return f.expectIn(s, at, false).applied
}

// expectStoppedAfter is expectHeld for a request that was delivered.
func expectStoppedAfter(s crashPoint, rewritten bool) expectation {
	if (rewritten || s.locked || s.prewrite) && s.before {
		return wantConflict
	}
	return wantCommit
}

// actionsOf is what to watch a run with.
func actionsOf(x *crashRun, f *fault) func(requestID) percolatortest.Action {
	return func(id requestID) percolatortest.Action { return f.decide(x, id) }
}

// onTarget does a with the request that is the target.
func (x *crashRun) onTarget(id requestID, a percolatortest.Action) percolatortest.Action {
	if id != x.target {
		return percolatortest.Pass
	}
	x.noteHit()
	return a
}

// onHeld holds the target. Of an append it holds the copies too that go to other streams meanwhile.
func (x *crashRun) onHeld(id requestID) percolatortest.Action {
	if id != x.target && id.where == journalTable && x.isTargetAgain(id) {
		return x.hold
	}
	return x.onTarget(id, x.hold)
}

// isTargetAgain tells the target and its repetitions.
func (x *crashRun) isTargetAgain(id requestID) bool {
	return id.role == x.target.role && id.where == x.target.where && id.nth >= x.target.nth
}

// onEvery does a with each request for which is holds. The second time the caller gives up, and
// when the client does not, it dies.
func (x *crashRun) onEvery(is bool, a percolatortest.Action) percolatortest.Action {
	if !is {
		return percolatortest.Pass
	}
	const mostHits = 6
	switch x.noteHit() {
	case 2:
		x.giveUp()
	case mostHits:
		return percolatortest.Crash
	}
	return a
}

// stopAt stops the whole client at the target, of which a says whether it is delivered.
func (x *crashRun) stopAt(id requestID, a percolatortest.Action) percolatortest.Action {
	if id == x.target {
		x.faults.Pause()
	}
	return x.onTarget(id, a)
}

// noteHit counts how often the fault has struck. Handlers are called one at a time.
func (x *crashRun) noteHit() int {
	if x.hits++; x.hits == 1 {
		close(x.struck)
	}
	return x.hits
}
