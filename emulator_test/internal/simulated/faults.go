package simulated

import (
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault is a kind of what may go wrong with a request.
type Fault uint8

const (
	RequestLost      Fault = iota // it never arrives: the caller times out or gets an error
	AnswerLost                    // it is applied: likewise
	Late                          // it is applied before its deadline, after the caller's error
	Duplicate                     // it is applied once more, at any time before its deadline
	StreamBroken                  // an answer breaks in the middle
	EntryRefused                  // one of the mutations of MutateRows is not applied
	EntryUnreported               // it is applied, and reported as failed
	ErrorBefore                   // any code in place of applying it
	ErrorAfter                    // a code that leaves the outcome open, although it is applied
	Abandoned                     // the caller leaves, but it is applied
	TabletAway                    // no server has the tablet, for a time
	SlowDisk                      // it takes up to the whole time until its deadline
	SlowAnswer                    // the answer does: what it says may be old
	Overloaded                    // for a time every request is refused, and some are asked to wait
	StorageFull                   // for a time only what erases passes
	SlowTablet                    // for a time what needs the tablet takes longer
	Queued                        // for a time a queue grows, and then gets shorter
	SilentConnection              // for a time one of ten connections of a process swallows everything
	ConnectionsReset              // all connections of a process are reset at one moment
	faultKinds
)

var faultNames = [faultKinds]string{"request lost", "answer lost", "late", "duplicate", "stream broken", "entry refused", "entry unreported",
	"error before", "error after", "abandoned", "tablet away", "slow disk", "slow answer", "overloaded", "storage full", "slow tablet", "queued",
	"silent connection", "connections reset"}

func (f Fault) String() string { return faultNames[f] }

// Rates are how often faults happen, from 0 to 1, as in Rates{Late: 0.01}.
type Rates [faultKinds]float64

// Counts are how often faults have happened.
type Counts [faultKinds]int64

// String lists the kinds that have happened.
func (c Counts) String() string {
	var out []string
	for f, n := range c {
		if n > 0 {
			out = append(out, fmt.Sprintf("%v: %d", Fault(f), n))
		}
	}
	return strings.Join(out, ", ")
}

// faults are those of a cluster.
type faults struct {
	rates atomic.Pointer[Rates] // nil: none
	count [faultKinds]atomic.Int64
}

// SetRates changes how often faults happen from now on.
func (c *Cluster) SetRates(r Rates) {
	if r == (Rates{}) {
		c.faults.rates.Store(nil)
		return
	}
	c.faults.rates.Store(&r)
}

// Faults is how often faults have happened so far.
func (c *Cluster) Faults() (out Counts) {
	for f := range out {
		out[f] = c.faults.count[f].Load()
	}
	return out
}

func (f *faults) happened(kind Fault) { f.count[kind].Add(1) }

// strikes decides a fault, and counts it.
func (f *faults) strikes(kind Fault, h hash) bool {
	if !f.decides(kind, h) {
		return false
	}
	f.happened(kind)
	return true
}

func (f *faults) decides(kind Fault, h hash) bool {
	rates := f.rates.Load()
	return rates != nil && rates[kind] > 0 && h.with(faultMark+uint64(kind)).float() < rates[kind]
}

// open are the codes that leave open whether a request was applied.
var open = [...]codes.Code{codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unavailable, codes.ResourceExhausted}

// openError is one of these.
func openError(h hash) error { return failure(open[h.with(codeMark).below(len(open))], h) }

// anyError has any code but OK.
func anyError(h hash) error {
	return failure(codes.Code(1+h.with(codeMark).below(int(codes.Unauthenticated))), h)
}

func failure(c codes.Code, h hash) error {
	message := "a fault of the simulation"
	if c == codes.Internal && h.with(messageMark)&1 == 0 {
		message = brokenStream
	}
	return status.Error(c, message)
}

func unavailable(why string) error { return status.Error(codes.Unavailable, why) }
