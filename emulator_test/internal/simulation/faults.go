package simulation

import (
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
)

// fault is a kind of them.
type fault string

// The faults of processes and their contexts, of the oracle and of a receiver; those of the store
// are its own.
const (
	oracleRequestLost   fault = "oracle: request lost"
	oracleAnswerLost    fault = "oracle: answer lost"
	oracleRefused       fault = "oracle: refused"
	oracleFailedAfter   fault = "oracle: done and reported failed"
	oracleSlow          fault = "oracle: slow answer"
	oracleStoreFailed   fault = "oracle's store: failed before"
	oracleStoreDoubtful fault = "oracle's store: failed after"
	oracleStoreSlow     fault = "oracle's store: slow"
	clockForward        fault = "oracle: clock forward"
	clockBack           fault = "oracle: clock back"
	leaderDeposed       fault = "oracle: leader deposed"
	leaderCutOff        fault = "oracle: leader cut off from its store"
	serverKilled        fault = "oracle: server killed"
	serverHandedOver    fault = "oracle: server handed over"
	serverSuspended     fault = "oracle: machine suspended"
	sessionEnded        fault = "oracle: session wrongly ended"
	sessionsSilent      fault = "oracle: sessions unanswered"
	objectRefused       fault = "objects: failed before"
	objectDoubtful      fault = "objects: failed after"
	processKilled       fault = "process killed"
	processStopped      fault = "process stopped"
	machineSuspended    fault = "machine suspended"
	contextCancelled    fault = "context cancelled"
	deadlineShort       fault = "context ended by a short deadline"
	receiverRefused     fault = "receiver: refused"
	receiverDoubtful    fault = "receiver: done and reported failed"
	receiverLeft        fault = "receiver: away for a while"
	oracleCutOff        fault = "oracle: process cut off"
	metaCutOff          fault = "process cut off from the meta row"
	collected           fault = "collected while all work"
	restored            fault = "backups restored"
	repaired            fault = "copies repaired"
	headerless          fault = "streams without a header"
	loaded              fault = "loads ended"
	imported            fault = "imports ended"
	importAborted       fault = "imports aborted"
	tableDropped        fault = "tables and columns dropped"
	journalTurned       fault = "journal turned off, or on again"
	dropped             fault = "parked changes abandoned"
	watchedAnew         fault = "consumers came too late"
	rangesDeleted       fault = "ranges deleted"
	grown               fault = "indexes, observers and tables added"
	rebuilt             fault = "indexes dropped and built anew"
)

// deeds are what is no fault, and has to happen like one.
var deeds = []fault{collected, restored, repaired, loaded, imported, importAborted, tableDropped, journalTurned, dropped, watchedAnew, rangesDeleted, grown, rebuilt}

// EveryDeed names all that processes do beside transactions, as a Report counts it. Streams without
// a header are too rare.
func EveryDeed() (names []string) {
	for _, d := range deeds {
		names = append(names, string(d))
	}
	return names
}

// kinds are all faults but those of the store.
var kinds = []fault{oracleRequestLost, oracleAnswerLost, oracleRefused, oracleFailedAfter, oracleSlow, oracleStoreFailed, oracleStoreDoubtful,
	oracleStoreSlow, clockForward, clockBack, leaderDeposed, leaderCutOff, serverKilled, serverHandedOver, serverSuspended, sessionEnded, sessionsSilent, objectRefused, objectDoubtful,
	processKilled, processStopped, machineSuspended, contextCancelled, deadlineShort, receiverRefused, receiverDoubtful, receiverLeft, oracleCutOff, metaCutOff}

// EveryFault names every kind of fault, as a Report counts them.
func EveryFault() (names []string) {
	for _, f := range kinds {
		names = append(names, string(f))
	}
	var counts simulated.Counts
	for f := range counts {
		names = append(names, storeFault(simulated.Fault(f)))
	}
	return names
}

func storeFault(f simulated.Fault) string { return "store: " + f.String() }

// tally counts faults, and knows which there are not.
type tally struct {
	without map[string]bool

	mu sync.Mutex
	n  map[fault]int
}

// add counts a fault that is about to happen, unless it must not.
func (t *tally) add(f fault) bool {
	if t.without[string(f)] {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[fault]int{}
	}
	t.n[f]++
	return true
}

func (t *tally) all() map[fault]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

// oneOf picks one of the faults with that probability, and counts it; "": none.
func (t *tally) oneOf(r *rand.Rand, rate float64, kinds ...fault) fault {
	if f := t.pick(r, rate, kinds...); f != "" && t.add(f) {
		return f
	}
	return ""
}

// pick is oneOf for a fault that may come to nothing: it is not counted yet.
func (t *tally) pick(r *rand.Rand, rate float64, kinds ...fault) fault {
	if rate <= 0 || r.Float64() >= rate {
		return ""
	}
	if f := kinds[r.IntN(len(kinds))]; !t.without[string(f)] {
		return f
	}
	return ""
}
