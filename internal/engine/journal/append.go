package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// A client appends its entries to a few streams of its own, each in another shard:
//
//	a stream has one row in flight; what comes meanwhile waits, and shares the next row
//	an idle client sends an entry at once, so none waits for others to come
//	a row keeps its number and its bytes however often it is sent: appending is idempotent
//	the next number is used when the row before it is acknowledged, or can no longer arrive (J1)
//	a row without an answer for hedgeAfter gets its undecided entries appended to another stream
//	an entry of many rows gets a stream of its own, so that none waits behind it
//
// Commit asks for its timestamp only when every part of its entry is acknowledged (J1). If that
// does not happen within the request lifetime, the transaction aborts: nothing of it can commit
// later, as its commit request was never sent.
//
// Rejected: one stream. An entry that comes just after a row was sent would wait for two requests.
// Rejected: a row for each transaction. It would cost every commit a request of its own.

// Streams that an [Appender] has.
const (
	// MaxStreams is how many streams a client appends to at once.
	MaxStreams = 8
	// maxStuck is how many more may wait for the answer to their last row.
	maxStuck = 2 * MaxStreams
	// hedgeAfter is how long a row may be in flight before its entries are appended elsewhere too.
	hedgeAfter = 2 * time.Second
	// sharedParts is how many parts an entry may have to share streams with others: 4 MiB of names.
	sharedParts = 16
	// maxWaiting bounds the bytes of entries that wait; a commit that finds it exceeded waits.
	maxWaiting = 16 << 20
)

const (
	batchColumn     = "batch"
	sessionColumn   = "session"
	lowColumn       = "low"
	committedColumn = "committed"
)

// Appender appends the entries of one client (J1, J3). It is safe for concurrent use.
type Appender struct {
	ctx     context.Context
	store   *store.Store
	session func(context.Context) string // the client's present one; "": the oracle keeps none
	Own     *Owner

	mu      sync.Mutex
	streams []*stream // at most MaxStreams
	stuck   int       // streams that wait for the answer to their last row
	waiting []*part
	bytes   int           // of waiting
	room    chan struct{} // closed when bytes falls below maxWaiting
	senders sync.WaitGroup
	closed  bool
}

// stream is one stream of the client. The goroutine that has set busy owns the other fields.
type stream struct {
	id      StreamID
	session string
	next    uint64 // number of the next row; 0: there is no header yet
	busy    bool
	stuck   bool // its row has no answer; its entries are appended elsewhere
	alone   bool // for one entry
}

// part is one part of a transaction's entry.
type part struct {
	entry  *model.JournalEntry
	of     *Append
	copies int  // waiting or in flight; guarded by the appender's mu
	acked  bool // likewise
}

// Append is a transaction's entry, in flight and then as its owner knows it.
type Append struct {
	entry *model.JournalEntry
	left  int           // parts without an acknowledgment; guarded by the appender's mu
	over  bool          // no one waits for the rest of it; likewise
	err   error         // valid once done is closed
	done  chan struct{} // closed when left is 0, or with err
	until time.Time     // no one waits for it any longer

	ownEntry
}

// NewAppender appends until ctx ends.
func NewAppender(ctx context.Context, s *store.Store, session func(context.Context) string) *Appender {
	return &Appender{ctx: ctx, store: s, session: session, Own: NewOwner()}
}

// Append begins to append an entry. ErrTooLarge: it has too many rows, and nothing is sent.
// ErrClosed.
func (a *Appender) Append(ctx context.Context, e *model.JournalEntry) (*Append, error) {
	cut, err := entryParts(e)
	if err != nil {
		return nil, err
	}
	if err := a.awaitRoom(ctx); err != nil {
		return nil, err
	}
	w := &Append{entry: e, left: len(cut), done: make(chan struct{}), until: time.Now().Add(a.store.Timing.RequestLifetime)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	parts := ordered.Map(cut, func(e *model.JournalEntry) *part { return &part{entry: e, of: w} })
	if len(parts) > sharedParts {
		a.senders.Go(func() { a.sendAlone(parts) })
		return w, nil
	}
	for _, p := range parts {
		a.queue(p)
	}
	a.kick()
	return w, nil
}

// sendAlone appends the parts of one entry to a stream that holds nothing else.
func (a *Appender) sendAlone(parts []*part) {
	s := &stream{id: newStreamID(), busy: true, alone: true}
	defer func() { a.Own.ended(s.id) }()
	for batch := range slices.Chunk(parts, MaxBatchBytes/partBytes-1) {
		a.mu.Lock()
		over := batch[0].of.over
		for _, p := range batch {
			p.copies++
		}
		a.mu.Unlock()
		if over {
			return
		}
		err := a.open(s, batch)
		if err == nil {
			err = a.row(s, batch)
		}
		a.answered(s, batch, err)
	}
}

// queue has a part sent with the next row. The caller holds a.mu.
func (a *Appender) queue(p *part) {
	p.copies++
	a.waiting = append(a.waiting, p)
	a.bytes += entryBytes(p.entry)
}

// awaitRoom waits while too much waits already.
func (a *Appender) awaitRoom(ctx context.Context) error {
	for {
		a.mu.Lock()
		if a.bytes < maxWaiting {
			a.mu.Unlock()
			return nil
		}
		if a.room == nil {
			a.room = make(chan struct{})
		}
		room := a.room
		a.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("percolator: waiting for the journal: %w", ctx.Err())
		}
	}
}

// Wait waits until the store has acknowledged the whole entry, for at most a request lifetime. Any
// error means that the transaction has to abort. A nil Append needs no waiting.
func (w *Append) Wait(ctx context.Context) error {
	if w == nil {
		return nil
	}
	select {
	case <-w.done: // as almost always: no timer
		return w.err
	default:
	}
	timer := time.NewTimer(time.Until(w.until))
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		return fmt.Errorf("percolator: transaction %d is not in the journal: %w", w.entry.StartTS, status.Errorf(codes.DeadlineExceeded, "%s has not answered for a request lifetime", model.JournalTable))
	case <-ctx.Done():
		return fmt.Errorf("percolator: waiting for the journal: %w", retry.WithContext(ctx, ctx.Err()))
	}
}

// Entry is what was appended.
func (w *Append) Entry() model.JournalEntry { return *w.entry }

// Drop gives up an entry whose transaction has aborted and left nothing in the tables: what was not
// sent yet need not be.
func (a *Appender) Drop(w *Append) {
	if w == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.over = true
}

// kick gives what waits to an idle stream. The caller holds a.mu.
func (a *Appender) kick() {
	if s := a.idle(); s != nil && len(a.waiting) > 0 && !a.closed {
		s.busy = true
		a.senders.Go(func() { a.send(s) })
	}
}

// idle is a stream without a row in flight; nil: there is none. The caller holds a.mu.
func (a *Appender) idle() *stream {
	for _, s := range a.streams {
		if !s.busy {
			return s
		}
	}
	if len(a.streams) == MaxStreams {
		return nil
	}
	s := &stream{id: newStreamID(ordered.Map(a.streams, func(s *stream) StreamID { return s.id })...)}
	a.streams = append(a.streams, s)
	return s
}

// send appends what waits until nothing does, or s has been replaced. It owns s.
func (a *Appender) send(s *stream) {
	for batch := a.take(s); len(batch) > 0; batch = a.take(s) {
		err := a.open(s, batch)
		if err == nil {
			err = a.row(s, batch)
		}
		if !a.answered(s, batch, err) {
			return
		}
	}
}

// take takes the entries of the next row of s; none: s is idle from now on.
func (a *Appender) take(s *stream) (batch []*part) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) > 0 { // on busy processors commits that wait for one may share the row
		a.mu.Unlock()
		runtime.Gosched()
		a.mu.Lock()
	}
	size := 0
	for len(a.waiting) > 0 {
		p := a.waiting[0]
		n := entryBytes(p.entry)
		if size += n; size > MaxBatchBytes-headBytes && len(batch) > 0 {
			break
		}
		a.waiting = a.waiting[1:]
		a.bytes -= n
		if p.of.over || p.acked {
			p.copies--
		} else {
			batch = append(batch, p)
		}
	}
	if len(a.waiting) == 0 {
		a.waiting = nil
	}
	if a.room != nil && a.bytes < maxWaiting {
		close(a.room)
		a.room = nil
	}
	s.busy = len(batch) > 0
	a.kick() // for what did not fit
	return batch
}

// headBytes is room for the names of tables.
const headBytes = partBytes

// open makes sure that s belongs to the present session and that its header is acknowledged (J3). A
// header that was not is tried in another shard next time.
func (a *Appender) open(s *stream, batch []*part) error {
	session := a.session(a.ctx)
	if s.next > 0 && s.session == session {
		return nil
	}
	if s.next > 0 {
		a.rename(s)
	}
	mut := store.NewMutation(2)
	mut.Put(layout.JournalFamily, sessionColumn, store.MetaTimestamp, encodeHeader(session, time.Now()))
	Low{Seq: 1}.put(mut)
	if err := a.request(s, batch, 0, mut); err != nil {
		a.rename(s)
		return err
	}
	s.session, s.next = session, 1
	return nil
}

// rename makes s another stream, without a header. Opening another stream reads its id.
func (a *Appender) rename(s *stream) {
	a.Own.ended(s.id)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.id, s.next = newStreamID(s.id), 0
}

// row appends a batch.
func (a *Appender) row(s *stream, batch []*part) error {
	entries := ordered.Map(batch, func(p *part) *model.JournalEntry { return p.entry })
	mut := store.NewMutation(2)
	mut.Put(layout.JournalFamily, batchColumn, store.MetaTimestamp, encodeBatch(entries))
	if told := a.Own.takeCommitted(s.id); told != nil {
		mut.Put(layout.JournalFamily, committedColumn, store.MetaTimestamp, told)
	}
	err := a.request(s, batch, s.next, mut)
	if err != nil {
		a.store.Count.AppendsFailed.Add(1)
		a.Own.lost(s.id, s.next)
	} else {
		a.store.Count.Appends.Add(1)
		a.Own.sent(s.id, s.next, batch)
	}
	s.next++ // of a row that was not acknowledged the number is lost: it may still arrive (J1)
	return err
}

// request writes a row of s for a batch. When the answer is late it has the entries appended
// elsewhere meanwhile.
func (a *Appender) request(s *stream, batch []*part, seq uint64, mut *store.Mutation) error {
	ctx, cancel := context.WithTimeout(a.ctx, a.store.Timing.RequestLifetime)
	defer cancel()
	answered := false // guarded by a.mu
	late := time.AfterFunc(hedgeAfter, func() { a.hedge(s, batch, &answered) })
	err := a.mutate(ctx, s.id.key(seq), mut)
	late.Stop()
	a.mu.Lock()
	answered = true
	a.mu.Unlock()
	return err
}

// mutate sends an idempotent mutation again while its outcome is open, until ctx ends.
func (a *Appender) mutate(ctx context.Context, key string, mut *store.Mutation) error {
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for {
		err := a.store.Mutate(ctx, model.JournalTable, key, mut)
		if err == nil || !retry.Ambiguous(err) || errors.Is(err, model.ErrClosed) || ctx.Err() != nil {
			return err
		}
		if pause.Wait(ctx) != nil {
			return err
		}
	}
}

// hedge replaces a stream whose row has no answer, and has the entries of that row appended again.
func (a *Appender) hedge(s *stream, batch []*part, answered *bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *answered || a.closed || a.store.Pressure.Of(model.JournalTable) { // it may wait for its turn
		return
	}
	at := slices.Index(a.streams, s)
	switch {
	case s.alone:
	case at < 0 || a.stuck == maxStuck:
		return
	default:
		a.streams = slices.Delete(a.streams, at, at+1)
		s.stuck = true
		a.stuck++
	}
	a.store.Count.Hedges.Add(1)
	for _, p := range batch {
		if !p.acked && !p.of.over {
			a.queue(p)
		}
	}
	a.kick()
}

// answered tells the transactions of a batch. A part fails when its last copy has. It reports
// whether s may go on: one that was replaced may if there is room for it.
func (a *Appender) answered(s *stream, batch []*part, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range batch {
		p.copies--
		switch {
		case p.acked:
		case err == nil:
			p.acked = true
			if p.of.left--; p.of.left == 0 {
				p.of.finish(nil)
			}
		case p.copies == 0:
			p.of.finish(fmt.Errorf("percolator: transaction %d is not in the journal: %w", p.entry.StartTS, err))
		}
	}
	if !s.stuck {
		return true
	}
	s.stuck = false
	a.stuck--
	if len(a.streams) == MaxStreams {
		a.Own.ended(s.id)
		return false
	}
	a.streams = append(a.streams, s)
	return true
}

func (w *Append) finish(err error) {
	select {
	case <-w.done:
	default:
		w.err, w.over = err, true
		close(w.done)
	}
}

// Close refuses further entries and returns when no sender is left. The context must have ended.
func (a *Appender) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.senders.Wait()
}
