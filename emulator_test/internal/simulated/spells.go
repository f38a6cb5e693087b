package simulated

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// spell is a part of a turn of time in which a fault holds for all requests.
type spell struct{ since, left time.Duration }

// spell reports whether a fault holds now. Time is divided into turns, in some of which it holds
// for a part; h decides which, so that two requests at one time never differ.
func (c *Cluster) spell(kind Fault, h hash, turn time.Duration) (s spell, holds bool) {
	now := time.Now().UnixNano()
	h = h.with(uint64(now / int64(turn)))
	if !c.faults.decides(kind, h) {
		return s, false
	}
	long := int64(h.with(slowMark).spread(turn))
	from := int64(h.with(lateMark).float() * float64(int64(turn)-long))
	at := now%int64(turn) - from
	return spell{time.Duration(at), time.Duration(long - at)}, at >= 0 && at < long
}

// spellOf is a spell of the whole cluster.
func (c *Cluster) spellOf(kind Fault) (s spell, holds bool) {
	if c.faults.rates.Load() == nil {
		return s, false
	}
	const turn = 10 * time.Second
	return c.spell(kind, c.seed.with(spellMark+uint64(kind)), turn)
}

// appliedOf is of how many requests that are refused for overload one is applied all the same: the
// code leaves that open (I17).
const appliedOf = 4

// overloaded is what a request gets while the cluster has too much to do; nil if it has not. Half
// of those that are refused are asked to wait for at most 2 s.
func (c *Cluster) overloaded(h hash) error {
	if _, holds := c.spellOf(Overloaded); !holds {
		return nil
	}
	c.faults.happened(Overloaded)
	st := status.New(codes.ResourceExhausted, "You have reached the limit of total mutations in your queue. Throttle your usage and wait for operations to finish.")
	if h = h.with(codeMark); h&1 == 0 {
		return st.Err()
	}
	asking, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(h.with(slowMark).spread(2 * time.Second))})
	if err != nil {
		return st.Err()
	}
	return asking.Err()
}

// queued is how long a request waits for others: in a spell for ever longer, up to a tenth of it,
// and in its last part less and less.
func (c *Cluster) queued() time.Duration {
	s, holds := c.spellOf(Queued)
	if !holds {
		return 0
	}
	c.faults.happened(Queued)
	return min(s.since/4, s.left/4, (s.since+s.left)/10)
}

// swallows reports whether a request goes by the one of ten connections from which nothing comes at
// present.
func (c *Connection) swallows(h hash) bool {
	const turn, of = 10 * time.Second, 10
	if c.cluster.faults.rates.Load() == nil || h.with(connectionMark).below(of) > 0 {
		return false
	}
	_, holds := c.cluster.spell(SilentConnection, c.hash.with(spellMark+uint64(SilentConnection)), turn)
	if holds {
		c.cluster.faults.happened(SilentConnection)
	}
	return holds
}

// reset ends a request that is in flight at the moment at which the connections are reset, if there
// is one in this turn of time.
func (c *Connection) reset(f *fate) {
	const turn = 10 * time.Second
	now := time.Now().UnixNano()
	h := c.hash.with(spellMark + uint64(ConnectionsReset)).with(uint64(now / int64(turn)))
	if !c.cluster.faults.decides(ConnectionsReset, h) {
		return
	}
	left := time.Duration(int64(h.with(lateMark).float()*float64(turn)) - now%int64(turn))
	if left <= 0 || !f.silent && left > f.out+f.back {
		return
	}
	c.cluster.faults.happened(ConnectionsReset)
	if left < f.out {
		f.out, f.lost = left, true
	}
	f.back, f.silent, f.failed = left-f.out, false, unavailable("the connection is reset")
}

// full refuses what does more than erase, reads too, while there is no storage.
func (c *Cluster) full(changes []store.Change, reads bool) error {
	if _, holds := c.spellOf(StorageFull); !holds {
		return nil
	}
	for i := range changes {
		reads = reads || changes[i].Kind == store.PutVersion
	}
	if !reads {
		return nil
	}
	c.faults.happened(StorageFull)
	return status.Error(codes.ResourceExhausted, "The storage of the cluster is full. Add nodes or delete data.")
}

// slowness is by how much longer a request takes that needs the tablet of a row.
func (t *table) slowness(row string) time.Duration {
	if t.cluster.faults.rates.Load() == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recut()
	tb, _ := t.tablet(row)
	const turn = 5 * time.Second
	h := t.cluster.seed.with(spellMark + uint64(SlowTablet)).with(t.hash).with(uint64(tb.hash))
	if _, holds := t.cluster.spell(SlowTablet, h, turn); !holds {
		return 0
	}
	t.cluster.faults.happened(SlowTablet)
	return h.with(slowMark).spread(time.Second)
}
