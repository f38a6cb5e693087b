package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso"
)

// oracle is the servers of one, which share a store.
type oracle struct {
	dice      *dice
	tally     *tally
	rate      func() float64 // of faults of a request to the store
	durable   durable
	addresses []string

	running sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*oracleServer // by address
	failed  []error
}

// oracleServer is one run of a server.
type oracleServer struct {
	*tso.Server
	store *oracleStore
	calls grpc.ClientConnInterface
	gate  gate         // of its machine, for the calls
	up    uptime       // of its machine
	ahead atomic.Int64 // of its wall clock
	stop  context.CancelFunc
	ended chan struct{}
}

const oracleServers = 2

func newOracle(d *dice, t *tally, rate func() float64) (*oracle, error) {
	o := &oracle{dice: d, tally: t, rate: rate, durable: tso.NewMemoryStore().(durable), servers: map[string]*oracleServer{}}
	for i := range oracleServers {
		o.addresses = append(o.addresses, fmt.Sprintf("127.0.0.1:%d", 7001+i))
		if err := o.start(o.addresses[i]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *oracle) targets() string { return strings.Join(o.addresses, ",") }

// start begins a run of the server at an address.
func (o *oracle) start(address string) error {
	ctx, stop := context.WithCancel(context.Background())
	s := &oracleServer{stop: stop, ended: make(chan struct{}), up: uptime{begun: time.Now()}}
	s.store = &oracleStore{durable: o.durable, server: address, dice: o.dice, tally: o.tally, rate: o.rate}
	var err error
	s.Server, err = tso.NewServer(s.store, tso.ServerConfig{
		Now:       func() time.Time { return s.up.now().Add(time.Duration(s.ahead.Load())) },
		Uptime:    s.up.read,
		PeerShare: 100, Advertise: address,
	})
	if err != nil {
		stop()
		return err
	}
	s.calls = s.Local()
	o.mu.Lock()
	o.servers[address] = s
	o.mu.Unlock()
	o.running.Go(func() {
		defer close(s.ended)
		if err := s.Run(ctx); err != nil && !s.store.dead.Load() {
			o.mu.Lock()
			o.failed = append(o.failed, fmt.Errorf("the oracle's server at %s ended: %w", address, err))
			o.mu.Unlock()
		}
	})
	return nil
}

// at is the server that runs at an address; nil if none does.
func (o *oracle) at(address string) *oracleServer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.servers[address]
}

// leading is the address of the server that leads, of any if none does.
func (o *oracle) leading() string {
	for _, address := range o.addresses {
		if s := o.at(address); s != nil && s.Status().Leading {
			return address
		}
	}
	return o.addresses[0]
}

// kill ends a server without a hand-over, and starts it again after a while.
func (o *oracle) kill(address string, down time.Duration) error {
	return o.restart(address, down, func(s *oracleServer) { s.store.dead.Store(true) })
}

// handOver ends a server as planned, and starts it again after a while.
func (o *oracle) handOver(address string, down time.Duration) error {
	return o.restart(address, down, func(*oracleServer) {})
}

func (o *oracle) restart(address string, down time.Duration, prepare func(*oracleServer)) error {
	o.mu.Lock()
	s := o.servers[address]
	delete(o.servers, address)
	o.mu.Unlock()
	if s == nil {
		return nil
	}
	prepare(s)
	s.stop()
	<-s.ended
	time.Sleep(down)
	return o.start(address)
}

// jump moves a server's clock.
func (o *oracle) jump(address string, by time.Duration) {
	if s := o.at(address); s != nil && (by > 0 || s.up.maySetBack()) {
		s.ahead.Add(int64(by))
	}
}

// pass moves the clocks of all servers on.
func (o *oracle) pass(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.servers {
		s.ahead.Add(int64(d))
	}
}

// setClocks sets the clocks of all servers.
func (o *oracle) setClocks(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.servers {
		s.ahead.Store(int64(now.Sub(s.up.now())))
	}
}

// cutOff keeps a server from its store for a while.
func (o *oracle) cutOff(address string, d time.Duration) {
	s := o.at(address)
	if s == nil {
		return
	}
	s.store.cut.Store(true)
	time.Sleep(d)
	s.store.cut.Store(false)
}

// depose fences the leader.
func (o *oracle) depose(ctx context.Context) error { return tso.Raise(ctx, o.durable, 1) }

// close ends the servers and tells what went wrong with them.
func (o *oracle) close() []error {
	o.mu.Lock()
	for _, s := range o.servers {
		s.stop()
	}
	o.mu.Unlock()
	o.running.Wait()
	return o.failed
}
