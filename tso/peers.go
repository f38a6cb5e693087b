package tso

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// peers is the servers that a client knows: its targets, and leaders that servers named. One
// goroutine uses it.
type peers struct {
	opts    dialOptions
	targets []string
	known   map[string]*peer
	current *peer

	target   int // the index of the target to try next
	failures int // attempts since the last pause
	followed int // leaders followed since the last pause
}

const (
	// maxFollowed is how often a client goes from server to server as they tell it without a pause:
	// they may, for a moment, name each other.
	maxFollowed = 3

	// shunned is how long a client avoids a server that did not answer, although another server
	// says that it leads.
	shunned = 500 * time.Millisecond
)

// peer is one server.
type peer struct {
	address  string
	conn     *grpc.ClientConn
	err      error     // the address cannot be dialed
	failedAt time.Time // of the last call without an answer; zero after a success

	oracle   tsopb.OracleClient
	sessions tsopb.SessionsClient
	rowLocks tsopb.RowLocksClient
	hints    tsopb.HintsClient
}

func newPeers(targets []string, opts dialOptions) *peers {
	p := &peers{opts: opts, targets: targets, known: make(map[string]*peer, len(targets)), target: 1}
	p.current = p.get(targets[0])
	return p
}

// get returns the peer at address.
func (p *peers) get(address string) *peer {
	if known, ok := p.known[address]; ok {
		return known
	}
	conn, err := p.opts.dial(address)
	added := &peer{
		address: address, conn: conn, err: err, oracle: tsopb.NewOracleClient(conn), sessions: tsopb.NewSessionsClient(conn),
		rowLocks: tsopb.NewRowLocksClient(conn), hints: tsopb.NewHintsClient(conn),
	}
	p.known[address] = added
	return added
}

// ask asks this server for n timestamps above after. ErrCorrupt: it leads, and has lost what it
// knew.
func (p *peer) ask(ctx context.Context, n int, after Timestamp, confirm bool) (first Timestamp, ahead bool, err error) {
	if p.err != nil {
		return 0, false, fmt.Errorf("%s: %w", p.address, p.err)
	}
	resp, err := p.oracle.Next(ctx, &tsopb.NextRequest{Count: uint32(n), After: int64(after), Confirm: confirm})
	if err != nil {
		switch status.Code(err) {
		case codes.FailedPrecondition: // a follower answers like this
		case codes.DataLoss:
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		default:
			p.failedAt = time.Now()
		}
		return 0, false, fmt.Errorf("%s: %w", p.address, err)
	}
	p.failedAt = time.Time{}
	if int(resp.GetCount()) != n || resp.GetFirst() <= 0 {
		return 0, false, fmt.Errorf("%s: answered %d timestamps from %d to a request for %d", p.address, resp.GetCount(), resp.GetFirst(), n)
	}
	return Timestamp(resp.GetFirst()), resp.GetAhead(), nil
}

// next chooses the server to try after the current one failed with err: the leader that it named,
// otherwise the next target. It reports whether to try without a pause.
func (p *peers) next(err error) bool {
	if leader := namedLeader(err); leader != "" && leader != p.current.address && p.followed < maxFollowed {
		if to := p.get(leader); time.Since(to.failedAt) > shunned {
			p.followed++
			p.current = to
			return true
		}
	}
	p.current = p.get(p.targets[p.target%len(p.targets)])
	p.target++
	p.forget()
	if p.failures++; p.failures < len(p.targets) {
		return true
	}
	p.failures, p.followed = 0, 0
	return false
}

// forget closes the connections to servers that are neither target nor current: addresses come and
// go while a client runs.
func (p *peers) forget() {
	if len(p.known) <= len(p.targets)+maxFollowed {
		return
	}
	maps.DeleteFunc(p.known, func(address string, known *peer) bool {
		forgotten := known != p.current && !slices.Contains(p.targets, address)
		if forgotten && known.conn != nil {
			_ = known.conn.Close()
		}
		return forgotten
	})
}

func (p *peers) close() error {
	var errs []error
	for _, known := range p.known {
		if known.conn != nil {
			errs = append(errs, known.conn.Close())
		}
	}
	return errors.Join(errs...)
}

// namedLeader returns the leader's address in the answer of a server that does not lead, "" when
// err is no such answer or that server knows no leader.
func namedLeader(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return ""
	}
	for _, detail := range st.Details() {
		if follower, ok := detail.(*tsopb.NotLeader); ok && checkAddress(follower.GetAddress()) == nil {
			return follower.GetAddress()
		}
	}
	return ""
}
