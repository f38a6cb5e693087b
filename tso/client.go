package tso

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Client is an [Oracle] that requests timestamps from servers. It keeps one request in flight;
// callers that arrive in the meantime share the next (section 2.3 of the paper). It is safe for
// concurrent use; a process needs one.
type Client struct {
	opts  dialOptions
	names string // the targets, for messages
	batch *batcher
	peers *peers // used by the sender only

	// leader is the server that answered last; nil before the first answer.
	leader atomic.Pointer[peer]

	sessions sessionSet

	expected expected // of the next answer; only the sender uses it

	// failure is what the last attempt failed with, nil after a success.
	failure atomic.Pointer[error]

	// heard: some attempt has failed otherwise than by a refused connection.
	heard atomic.Bool

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	sender sync.WaitGroup
	once   sync.Once
}

// Dial connects to the oracle whose servers are at targets, a comma-separated list of host:port, of
// which any may lead now or later. Give all of them: the client finds the leader from any of them,
// but needs one that is up.
//
// Dial waits until the oracle hands out a timestamp. It gives up when ctx ends, after the time of
// [WithTimeout] (10 s), or after 2 s if every server refuses the connection; the error names the
// targets and the last failure.
// ErrInvalidArgument: targets is no such list, or the client would speak plaintext with another
// machine (see [WithPlaintext]). The caller has to Close the client.
func Dial(ctx context.Context, targets string, opts ...DialOption) (*Client, error) {
	addresses, err := parseTargets(targets)
	if err != nil {
		return nil, err
	}
	o := newDialOptions(opts)
	for _, address := range addresses {
		if err := o.checkPlaintext(address); err != nil {
			return nil, err
		}
	}
	clientCtx, cancel := context.WithCancel(context.Background())
	c := &Client{
		opts: o, names: strings.Join(addresses, ","), batch: newBatcher(), peers: newPeers(addresses, o),
		ctx: clientCtx, cancel: cancel,
	}
	c.sender.Add(1)
	go c.send()

	ctx, cancelWait := context.WithTimeout(ctx, o.timeout)
	defer cancelWait()
	var refused atomic.Bool
	defer time.AfterFunc(refusalPatience, func() {
		if refused.Store(c.lastFailure() != nil && !c.heard.Load()); refused.Load() {
			cancelWait()
		}
	}).Stop()
	if _, err := c.Next(ctx); err != nil {
		if refused.Load() {
			err = fmt.Errorf("tso: %w: nothing listens at %s: connection refused", ErrUnavailable, c.names)
		}
		return nil, fmt.Errorf("%w%s", err, closing(c.Close()))
	}
	return c, nil
}

// refusalPatience is how long Dial waits for servers of which every one refuses the connection:
// they may have been started just now.
const refusalPatience = 2 * time.Second

// isRefusal reports whether nothing listens where an attempt was sent. gRPC tells that by its text
// alone.
func isRefusal(err error) bool {
	return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connection refused")
}

func closing(err error) string {
	if err == nil {
		return ""
	}
	return "; closing: " + err.Error()
}

// parseTargets splits a list of host:port.
func parseTargets(targets string) ([]string, error) {
	var addresses []string
	for _, address := range strings.Split(targets, ",") {
		if address = strings.TrimSpace(address); address == "" {
			continue
		}
		if err := checkAddress(address); err != nil {
			return nil, fmt.Errorf("tso: %w: target %w", ErrInvalidArgument, err)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 || len(addresses) > maxTargets {
		return nil, fmt.Errorf("tso: %w: %d targets in %.140q, not 1 to %d", ErrInvalidArgument, len(addresses), targets, maxTargets)
	}
	return addresses, nil
}

// Next implements [Oracle]. While no server answers, the client retries. Next returns
// ErrUnavailable, with the last failure, when 10 s (see [WithTimeout]) have not brought an answer,
// or 20 s for a caller that arrived while another request was failing, and ctx's error if ctx ends
// before. ErrClosed: the client was closed. ErrCorrupt: the oracle's leader has lost what it knew,
// as after a restore of an old backup, and would hand out timestamps again: stop its servers and
// raise its mark ([Raise], "percolator tso raise").
//
// A caller that gives up affects no other; its timestamp is skipped. When very many callers wait at
// once, Next may return up to 20 ms after the end of ctx.
func (c *Client) Next(ctx context.Context) (Timestamp, error) { return c.next(ctx, 1) }

// NextBlock implements [Blocks]. It is Next but for the number.
func (c *Client) NextBlock(ctx context.Context, n int) (Timestamp, error) {
	if err := checkBlock(n); err != nil {
		return 0, err
	}
	return c.next(ctx, n)
}

func (c *Client) next(ctx context.Context, n int) (Timestamp, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("tso: asking for a timestamp: %w", err)
	}
	part, position, err := c.batch.join(n)
	if err != nil {
		return 0, err
	}
	if err := part.wait(ctx, position); err != nil {
		return 0, fmt.Errorf("tso: waiting for a timestamp from %s: %w%s", c.names, err, because(c.lastFailure()))
	}
	if part.err != nil {
		return 0, part.err
	}
	return part.first + Timestamp(position), nil
}

func (c *Client) lastFailure() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Close ends the client; callers that wait get ErrClosed. Close may be called more than once.
func (c *Client) Close() error {
	var err error
	c.once.Do(func() {
		c.sessions.close() // while their ends can be told
		c.batch.close(errClientClosed)
		c.cancel()
		c.sender.Wait()
		err = c.peers.close()
	})
	return err
}

var errClientClosed = fmt.Errorf("tso: %w", ErrClosed)

// send sends one batch after another until the client is closed.
func (c *Client) send() {
	defer c.sender.Done()
	for {
		_, n := c.batch.take()
		if n == 0 {
			select {
			case <-c.batch.ready:
				continue
			case <-c.ctx.Done():
				return
			}
		}
		first, err := c.ask(n)
		c.batch.answer(first, err)
		// The callers that have just got their answer come first: many will ask again at once, and
		// should find room in the next batch.
		runtime.Gosched()
	}
}

// ask gets n timestamps and returns the first. It tries servers until one answers or the time is
// up.
func (c *Client) ask(n int) (Timestamp, error) {
	deadline := time.Now().Add(c.opts.timeout)
	first, err := c.attempt(n, deadline)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		first, err = c.askAgain(n, deadline, err)
	}
	if err == nil && c.failure.Load() != nil {
		c.failure.Store(nil)
	}
	return first, err
}

// askAgain goes on after an attempt that failed with err.
func (c *Client) askAgain(n int, deadline time.Time, err error) (Timestamp, error) {
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	// A hand-over takes a fraction of a second, and a server that is down refuses at once.
	pause := newPause(10*time.Millisecond, 250*time.Millisecond)
	c.noteFailure(err, false)
	for {
		if !c.peers.next(err) && sleep(ctx, pause.NextBackOff()) != nil || ctx.Err() != nil {
			break
		}
		cut := time.Until(deadline) < c.opts.callTimeout
		var first Timestamp
		if first, err = c.attempt(n, deadline); err == nil || errors.Is(err, ErrCorrupt) {
			return first, err
		}
		c.noteFailure(err, cut)
	}
	if c.ctx.Err() != nil {
		return 0, errClientClosed
	}
	return 0, fmt.Errorf("tso: %w: no timestamp from %s within %v%s", ErrUnavailable, c.names, c.opts.timeout, because(c.lastFailure()))
}

// noteFailure keeps err for messages, unless it says only that the deadline cut the attempt short:
// then the failure before it says more.
func (c *Client) noteFailure(err error, cut bool) {
	if cut && status.Code(err) == codes.DeadlineExceeded && c.failure.Load() != nil {
		return
	}
	if !isRefusal(err) {
		c.heard.Store(true)
	}
	c.failure.Store(&err)
}

// attempt asks one server, until deadline at the latest.
func (c *Client) attempt(n int, deadline time.Time) (Timestamp, error) {
	if cut := time.Now().Add(c.opts.callTimeout); cut.Before(deadline) {
		deadline = cut
	}
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	asked := c.opts.boot()
	first, ahead, err := c.peers.current.ask(ctx, n, c.expected.last, c.expected.doubt)
	if err != nil {
		return 0, err
	}
	// The client need not trust the server blindly: it can check its own order.
	if err := c.expected.check(first, n, ahead, asked); err != nil {
		return 0, fmt.Errorf("tso: %s %w", c.peers.current.address, err)
	}
	c.expected.accept(first, n, ahead, c.opts.boot())
	if c.leader.Load() != c.peers.current {
		c.leader.Store(c.peers.current)
	}
	return first, nil
}

// answerTolerance is how far an answer may lie behind what its client expects, beyond maxAhead: the
// wall clocks of two servers may differ by as much, and the speed of the client's clock from
// theirs.
const answerTolerance = time.Second

// expected is what a client knows of the next answer. The clocks of a server do not always show
// that its machine was suspended, as where a hypervisor suspends it and leaves its wall clock
// alone. Then it may go on for the rest of a lease that it has lost, in the past. The clients with
// which it goes on can see that, because time has passed for them.
//
// So a client refuses an answer that lies more than maxAhead + answerTolerance behind the last one
// and the time since then, and asks all servers with the demand to confirm their leases by a write
// to the store (allocator.confirm). It believes a confirmed answer, however far behind: then the
// oracle's clock was set back while the client had nothing to ask.
type expected struct {
	last  Timestamp // the greatest timestamp received
	doubt bool      // an answer was refused

	// at is when last was received, by the boot-time clock of the client. unclocked: last was so
	// far ahead of its server's clock that the time since then says nothing.
	at        time.Duration
	unclocked bool
}

// check returns an error unless n timestamps from first on may follow, in the answer to a request
// that was sent at asked.
func (e *expected) check(first Timestamp, n int, ahead bool, asked time.Duration) error {
	if last := first + Timestamp(n) - 1; first <= e.last || last < first || last > MaxTimestamp {
		return fmt.Errorf("went back: it answered %d after %d", first, e.last)
	}
	if e.last == 0 || e.unclocked || ahead || e.doubt {
		return nil
	}
	if behind := e.last.Add(asked - e.at).Sub(first); behind > maxAhead+answerTolerance {
		e.doubt = true
		return fmt.Errorf("is behind: it answered %d, %v below what is due by now", first, behind)
	}
	return nil
}

// accept notes an answer that was received at a time.
func (e *expected) accept(first Timestamp, n int, ahead bool, at time.Duration) {
	*e = expected{last: first + Timestamp(n) - 1, at: at, unclocked: ahead}
}
