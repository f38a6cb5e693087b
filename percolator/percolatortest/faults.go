package percolatortest

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/percolator/model"
)

const (
	// maxRecorded is how many requests Faults remembers: the newest ones.
	maxRecorded = 20_000
	// lateLimit bounds the delivery of a request whose caller's context does not.
	lateLimit = 30 * time.Second
)

// Faults decides what happens to the requests of one client, and remembers them. Its methods are
// safe for concurrent use.
type Faults struct {
	client string

	deciding sync.Mutex // one request after another asks the handler

	mu      sync.Mutex
	users   traffic // of users' tables, percolator_meta and the oracle
	journal traffic
	paused  chan struct{}   // closed by Resume; nil unless paused
	dead    context.Context // ends with Crash
	over    context.Context // ends with the test
	kill    context.CancelFunc
	finish  context.CancelFunc
	late    sync.WaitGroup
}

// traffic is requests, and who decides about them.
type traffic struct {
	handler  func(Request) Action
	seq      int
	recorded []Request // the newest
}

func newFaults(client string) *Faults {
	f := &Faults{client: client}
	f.dead, f.kill = context.WithCancel(context.Background())
	f.over, f.finish = context.WithCancel(context.Background())
	return f
}

// Handle makes f decide about every request from now on, but for those to percolator_journal; nil
// lets all of them pass. f is called for one request at a time, in the order of their Seq. It must
// not wait and must not use the client, but may call the other methods of Faults. A nil Action is
// Pass.
func (f *Faults) Handle(handler func(Request) Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users.handler = handler
}

// HandleJournal is [Faults.Handle] for requests to percolator_journal, which commits share and a
// client makes at times of its own. They have a Seq of their own.
func (f *Faults) HandleJournal(handler func(Request) Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.journal.handler = handler
}

// Requests returns the requests that the client has made, in order, but for those to
// percolator_journal: at most the newest 20,000.
func (f *Faults) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.users.recorded)
}

// JournalRequests is [Faults.Requests] for percolator_journal.
func (f *Faults) JournalRequests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.journal.recorded)
}

// Forget empties the lists that Requests and JournalRequests return.
func (f *Faults) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users.recorded, f.journal.recorded = nil, nil
}

// Pause stops the client like a process that gets no processor: from now on its requests wait,
// undelivered and unrecorded, until Resume. One whose context ends first is never delivered.
func (f *Faults) Pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused == nil {
		f.paused = make(chan struct{})
	}
}

// Resume lets a paused client go on.
func (f *Faults) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused != nil {
		close(f.paused)
		f.paused = nil
	}
}

// Crash kills the client as the action of that name does.
func (f *Faults) Crash() { f.kill() }

// Crashed tells whether the client is dead.
func (f *Faults) Crashed() bool { return f.dead.Err() != nil }

// errCrashed is what a dead client's requests end with. The code is one after which no client
// repeats a request after.
func (f *Faults) errCrashed() error {
	return status.Errorf(codes.PermissionDenied, "percolatortest: %s has crashed", f.client)
}

// end lets everything pass from now on, gives up held requests, and waits for running deliveries.
func (f *Faults) end() {
	f.Resume()
	f.mu.Lock()
	f.users.handler, f.journal.handler = nil, nil
	f.users.recorded, f.journal.recorded = nil, nil
	f.finish()
	f.mu.Unlock()
	f.late.Wait()
}

// decide records the request and asks the handler about it.
func (f *Faults) decide(ctx context.Context, method string, m proto.Message) (Request, Action, error) {
	if err := f.awaitResume(ctx); err != nil {
		return Request{}, nil, err
	}
	f.deciding.Lock()
	defer f.deciding.Unlock()
	r := Request{Client: f.client, Method: method}
	r.describe(m)
	r.Deadline, _ = ctx.Deadline()
	handler, err := f.record(&r)
	if err != nil {
		return r, nil, err
	}
	var a Action = Pass
	if handler != nil {
		if chosen := handler(r); chosen != nil {
			a = chosen
		}
	}
	if a == Crash {
		f.Crash()
	}
	if f.Crashed() {
		return r, nil, f.errCrashed()
	}
	return r, a, nil
}

func (f *Faults) awaitResume(ctx context.Context) error {
	for {
		f.mu.Lock()
		paused := f.paused
		f.mu.Unlock()
		if paused == nil {
			return nil
		}
		select {
		case <-paused:
		case <-f.dead.Done():
			return f.errCrashed()
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (f *Faults) record(r *Request) (handler func(Request) Action, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Crashed() {
		return nil, f.errCrashed()
	}
	t := &f.users
	if r.Table == model.JournalTable {
		t = &f.journal
	}
	t.seq++
	r.Seq = t.seq
	if len(t.recorded) >= maxRecorded {
		t.recorded = slices.Delete(t.recorded, 0, maxRecorded/2)
	}
	t.recorded = append(t.recorded, *r)
	return t.handler, nil
}

// answer is what came back for a request: messages, then err or the end.
type answer struct {
	messages []proto.Message
	err      error
}

// carryOut does what the action, which is not Pass, says with a request. deliver sends it once; it
// is called with a context that outlives the caller's.
func (f *Faults) carryOut(ctx context.Context, r Request, a Action, deliver func(context.Context) answer) answer {
	once := func() answer {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateLimit)
		defer cancel()
		return deliver(late)
	}
	switch a := a.(type) {
	case Effect:
		return f.carryOutEffect(ctx, a, once)
	case refusal:
		return answer{err: a.err}
	case replaced:
		return f.await(ctx, func() answer {
			once()
			return answer{err: a.err}
		})
	case *Hold:
		k, held := a.keep(r, once)
		if !held {
			return f.await(ctx, once)
		}
		return f.awaitKept(ctx, k)
	case heldAnswer:
		got := f.await(ctx, once)
		k, held := a.keep(r, func() answer { return got })
		if !held {
			return got
		}
		return f.awaitKept(ctx, k)
	case heldCopy:
		a.keep(r, once)
		return f.await(ctx, once)
	}
	return answer{err: status.Errorf(codes.Internal, "percolatortest: %T is no action", a)}
}

func (f *Faults) carryOutEffect(ctx context.Context, e Effect, once func() answer) answer {
	switch e {
	case LoseRequest:
		return answer{err: status.Error(codes.Unavailable, "percolatortest: the request was lost")}
	case LoseAnswer:
		return f.await(ctx, func() answer {
			once()
			return answer{err: status.Error(codes.Unavailable, "percolatortest: the answer was lost")}
		})
	case CrashAfter:
		return f.await(ctx, func() answer {
			once()
			f.Crash()
			return answer{err: f.errCrashed()}
		})
	case Duplicate:
		return f.await(ctx, func() answer {
			first := once()
			once()
			return first
		})
	}
	return answer{err: f.errCrashed()}
}

// await runs do to its end, but waits for it only as long as the caller waits and the client lives.
func (f *Faults) await(ctx context.Context, do func() answer) answer {
	k := &kept{result: make(chan answer, 1)}
	f.mu.Lock()
	if f.over.Err() != nil { // no caller waits for it any more
		f.mu.Unlock()
		return do()
	}
	f.late.Add(1)
	f.mu.Unlock()
	go func() {
		defer f.late.Done()
		k.result <- do()
	}()
	return f.awaitKept(ctx, k)
}

func (f *Faults) awaitKept(ctx context.Context, k *kept) answer {
	select {
	case got := <-k.result:
		return got
	case <-f.dead.Done():
		return answer{err: f.errCrashed()}
	case <-f.over.Done():
		return answer{err: status.Error(codes.Unavailable, "percolatortest: the test has ended")}
	case <-ctx.Done():
		return answer{err: status.FromContextError(ctx.Err()).Err()}
	}
}
