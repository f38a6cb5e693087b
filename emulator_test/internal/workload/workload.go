// Package workload makes transactions at random, against any [percolator.Client], and records what
// they saw, so that package history can judge it.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// The transactions:
//
//	appends    to lists, some of them to several at once; observers copy the lists
//	transfers  between accounts whose sum is constant
//	registers  counters that only grow, rows whose columns are always equal, and cells that are
//	           inserted and deleted
//	permute    a ring of rows, each naming the next, that stays one cycle
//	duty       two people of whom one is always on duty, which takes locking reads
//	people     with a unique and a plain index
//	stock      a table whose schema may grow
//	pages      that are published once, which observers copy, and withdrawn later
//	sheets     of hundreds of cells in several tables, written by large transactions
//	pokes      weak notifications
//	totals     to which transactions contribute by a combine queue
//	exports    of an ordered queue to a receiver that fails now and then
//	chains     of observers: what a head says comes to the end by a fan-out, batches and a fan-in
//	claims     some of which are too difficult for an observer for a time
//	views      scans, index scans, batched reads, reads of the past, snapshots that last, that are
//	           under a hold, that may be stale
//	sweeps     old receipts are found by scans and deleted
//	permits    that expire, where the schema has them
//	files      in an archive of which operators delete ranges, likewise
//	posts      to an outbox whose receiver is away for long, likewise
//	cards      whose index operators drop and build anew, likewise
//
// Almost every transaction writes a receipt: a row of its own with its number. It is what proves,
// in the end, whether a transaction committed whose client never learned of it; and being read by
// no other for a long time, it is the cold secondary that crashes leave behind.

// The tables.
const (
	lists     = "lists"
	bank      = "bank"
	registers = "registers"
	ring      = "ring"
	people    = "people"
	copies    = "copies"
	pings     = "pings"
	receipts  = "receipts"
	stock     = "stock"
	sheets    = "sheets"
)

// Tables lists all tables of the workload but for those of queues.
var Tables = []string{lists, bank, registers, ring, people, copies, pings, receipts, stock, totals, chains, sheets, claims}

// more are tables that only some schemas have.
var more = []string{permits, terms, archive}

// Schema is the schema that the workload needs.
func Schema(timing percolator.Timing) *percolator.Schema {
	return &percolator.Schema{Timing: timing, Tables: []percolator.Table{
		{Name: lists, Observed: []string{"items"}},
		{Name: bank}, {Name: registers}, {Name: ring}, {Name: copies}, {Name: receipts}, {Name: stock}, {Name: sheets},
		{Name: people, Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}, {Name: "city", Column: "city"}}},
		{Name: pings, Weak: []string{"poke"}},
		{Name: totals}, newContributions().Table(), newExports().Table(),
		{Name: chains, Observed: []string{"head", "leg", "stop"}},
		{Name: claims, Observed: []string{"claim"}},
	}}
}

// Rules are what the history of the workload must obey.
func Rules() history.Rules {
	return history.Rules{
		List:   func(c history.Cell) bool { return c.Table == lists && !strings.HasPrefix(c.Row, page) },
		Unique: []history.Column{{Table: people, Name: "mail"}, {Table: stock, Name: "serial"}},
		Observers: []history.Observer{
			{Name: "copy", Table: lists, Column: "items"},
			{Name: "count", Table: lists, Column: "items"},
			{Name: "tally", Table: pings, Column: "poke", Weak: true},
			{Name: "pile", Table: pings, Column: "poke", Weak: true},
			{Name: "divide", Table: chains, Column: "head"},
			{Name: "carry", Table: chains, Column: "leg"},
			{Name: "gather", Table: chains, Column: "stop"},
			{Name: decider, Table: claims, Column: "claim"},
			{Name: "file", Table: claims, Column: "claim"},
		},
		Unrecorded: []string{exports, outbox}, // a delivery is not told its transaction
	}
}

// How much of everything there is. Few rows, so that transactions meet.
const (
	activeLists = 4
	listLength  = 8 // then the list is left alone and another one begun
	accounts    = 6
	balance     = 100 // of each account in the beginning
	counters    = 3
	wideRows    = 2
	wideColumns = 7
	slots       = 3
	nodes       = 6
	persons     = 8
	mails       = 10
	cities      = 4
	wares       = 20
	kinds       = 4
	pingRows    = 2
	buckets     = 16  // of receipts
	keptBack    = 300 // the newest receipts, and pages, are left alone
	oldLists    = 3   // so are lists younger than that many others of their number
)

// Workload is what its sessions share. Its methods may be called concurrently.
type Workload struct {
	History *history.Recording
	// Receive decides what becomes of a delivery by a worker. nil: the receiver gets it.
	Receive func(worker string) Reception
	// Perish may end a process whose transaction spans what is being dropped, just when it was
	// acknowledged. nil: no client dies of it.
	Perish func(process string)

	contributions *combinequeue.Queue[int64]
	exports       *exportqueue.Queue
	outbox        *exportqueue.Queue // nil: the schema has none
	away          func(worker string, partition int) bool
	posted        func(process string)

	*Counters
	picks     []pick
	snapshots *history.Snapshots
	grown     grown
	validity  validity
	archived  bool // the schema has an archive
	carded    bool // it has cards
	fresh     freshness
	difficult atomic.Bool

	cardsAt atomic.Uint32 // a dropStage, of the index of cards

	mu     sync.Mutex
	counts map[string]*Count
	past   []tso.Timestamp // commit timestamps, newest last
	again  []tso.Timestamp // of these, which are read again and again
	held   []tso.Timestamp // snapshots under holds
	loaded int             // loads that have ended

	imports []*Import
	drops   []*Drop // nil: nothing is dropped
	passes  expiringPasses
}

// Past is acknowledged commit timestamps, the newest last.
func (w *Workload) Past() []tso.Timestamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.past)
}

// BankTotal is the sum of all accounts, always.
const BankTotal = accounts * balance

// Amount is what an account holds.
func Amount(v []byte) int64 { return number(v) }

// Count is how often transactions of one kind ended in which way.
type Count struct{ Committed, Aborted, Unknown, Read int64 }

// Counters number what transactions write, and the lists. Processes with a workload each share
// them, in memory that they map.
type Counters struct {
	ids         atomic.Int64
	generations [activeLists]atomic.Int64
}

// New returns a workload that records in h.
func New(h *history.Recording) *Workload { return Sharing(new(Counters), h) }

// Sharing is New for one of several workloads on the same tables, which count together.
func Sharing(c *Counters, h *history.Recording) *Workload {
	w := &Workload{
		History: h, Counters: c, picks: picks, contributions: newContributions(), exports: newExports(), counts: map[string]*Count{},
		snapshots: history.NewSnapshots(func(a history.Anomaly) { h.Judged(a) }),
	}
	w.imports = newImports(w)
	return w
}

// Counts is how many transactions of each kind there were so far.
func (w *Workload) Counts() map[string]Count {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]Count{}
	for k, c := range w.counts {
		out[k] = *c
	}
	return out
}

// Session makes transactions one after the other with one client.
type Session struct {
	*Workload
	Client *percolator.Client
	Name   string
	Dead   func() bool // the client has crashed: what it was told no longer counts
	Rand   *rand.Rand

	counted map[string]int64 // counters as last seen
	page    percolator.Cell  // published last, not revised yet
	poked   string           // row that was poked once
}

// NewSession returns a session with a client.
func (w *Workload) NewSession(c *percolator.Client, name string, dead func() bool, r *rand.Rand) *Session {
	return &Session{Workload: w, Client: c, Name: name, Dead: dead, Rand: r, counted: map[string]int64{}}
}

// pick is one of the kinds with its weight.
type pick struct {
	weight int
	run    func(*Session, context.Context)
}

var picks = []pick{
	{16, (*Session).appendToLists},
	{12, (*Session).transfer},
	{8, (*Session).count},
	{5, (*Session).rewriteWideRow},
	{5, (*Session).occupySlot},
	{8, (*Session).permute},
	{5, (*Session).changeDuty},
	{12, (*Session).movePerson},
	{5, (*Session).restock},
	{2, (*Session).viewStock},
	{3, (*Session).poke},
	{3, (*Session).blindWrite},
	{2, (*Session).takeMail},
	{1, (*Session).sheet},
	{6, (*Session).mixed},
	{4, (*Session).sweep},
	{5, (*Session).viewBank},
	{4, (*Session).viewRing},
	{1, (*Session).viewLoads},
	{5, (*Session).viewPeople},
	{3, (*Session).viewPersons},
	{4, (*Session).viewMany},
	{4, (*Session).viewPast},
	{3, (*Session).viewStale},
	{14, (*Session).publish},
	{8, (*Session).revise},
	{3, (*Session).withdraw},
	{4, (*Session).contribute},
	{2, (*Session).viewTotals},
	{3, (*Session).export},
	{3, (*Session).moveChain},
	{1, (*Session).viewChains},
	{3, (*Session).claim},
}

// Linger keeps a snapshot for seconds, under a hold now and then. It is for sessions of their own,
// as it takes so long.
func (s *Session) Linger(ctx context.Context) {
	if s.Rand.IntN(3) == 0 && !s.dropWaits() {
		s.viewHeld(ctx)
		return
	}
	if s.carded && s.Rand.IntN(3) == 0 {
		s.leafCards(ctx)
		return
	}
	s.dwell(ctx)
}

// Step makes one transaction, or a snapshot.
func (s *Session) Step(ctx context.Context) {
	s.fresh.mark(s.History)
	if im := s.someCargo(); im != nil {
		s.useCargo(ctx, im)
		return
	}
	if c, ok := s.somePass(); ok {
		s.pass(ctx, c)
		return
	}
	if s.someCards() {
		s.useCards(ctx)
		return
	}
	if d := s.someAnnex(); d != nil {
		s.annex(ctx, d)
		return
	}
	total := 0
	for _, p := range s.picks {
		total += p.weight
	}
	n := s.Rand.IntN(total)
	for _, p := range s.picks {
		if n -= p.weight; n < 0 {
			p.run(s, ctx)
			return
		}
	}
}

func (w *Workload) tally(kind string, add func(*Count)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[kind] == nil {
		w.counts[kind] = &Count{}
	}
	add(w.counts[kind])
}

// remember keeps a commit timestamp for reads of the past.
func (w *Workload) remember(ts tso.Timestamp) {
	const most = 512
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past = append(w.past, ts); len(w.past) > most {
		w.past = append([]tso.Timestamp(nil), w.past[most/2:]...)
	}
}

// cell names a cell; it is history.Cell and percolator.Cell by conversion.
func cell(table, row, column string) percolator.Cell {
	return percolator.Cell{Table: table, Row: row, Column: column}
}

// value is a text that only this transaction writes to a cell: what it says, and the transaction's
// number.
func value(says string, id int64) []byte { return []byte(says + " #" + strconv.FormatInt(id, 10)) }

// says is what a value says.
func says(v []byte) string {
	text, _, _ := strings.Cut(string(v), " #")
	return text
}

// idOf is the number in a value.
func idOf(v []byte) int64 {
	_, text, _ := strings.Cut(string(v), "#")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func number(v []byte) int64 {
	n, _ := strconv.ParseInt(says(v), 10, 64)
	return n
}

func receiptCell(id int64) percolator.Cell {
	return cell(receipts, fmt.Sprintf("%02d-%08d", id%buckets, id), "id")
}

// errGiveUp ends a transaction that has nothing to do.
var errGiveUp = errors.New("nothing to do")
