package store

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// service answers what is sent on one connection, each request after its time. 0: never.
type service struct {
	cc *grpc.ClientConn

	mu          sync.Mutex
	takes, ping time.Duration
	sent, pings int
}

func (v *service) set(takes, ping time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.takes, v.ping = takes, ping
}

func (v *service) counts() (sent, pings int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent, v.pings
}

func (v *service) answer(ctx context.Context, takes time.Duration) error {
	var answer <-chan time.Time
	if takes > 0 {
		answer = time.After(takes)
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (v *service) invoke(ctx context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
	v.mu.Lock()
	takes := v.takes
	if _, ping := req.(*btpb.PingAndWarmRequest); ping {
		takes = v.ping
		v.pings++
	} else {
		v.sent++
	}
	v.mu.Unlock()
	return v.answer(ctx, takes)
}

// served is a stream with one message, whose header comes with it.
type served struct {
	grpc.ClientStream
	v    *service
	ctx  context.Context
	at   time.Time
	ends bool
}

func (v *service) open(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent++
	s := &served{v: v, ctx: ctx}
	if v.takes > 0 {
		s.at = time.Now().Add(v.takes)
	}
	return s, nil
}

func (s *served) wait() error {
	if s.at.IsZero() {
		return s.v.answer(s.ctx, 0)
	}
	return s.v.answer(s.ctx, max(time.Until(s.at), 1))
}
func (s *served) SendMsg(any) error { return nil }
func (s *served) Header() (metadata.MD, error) {
	return metadata.Pairs("answered", "yes"), s.wait()
}
func (s *served) RecvMsg(any) error {
	if err := s.wait(); err != nil || s.ends {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	s.ends = true
	return nil
}

// newServices returns a pool of n connections, whose pings are allowed.
func newServices(t *testing.T, n int, takes, ping time.Duration) (*pool, []*service) {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	p := &pool{life: life, ping: &btpb.PingAndWarmRequest{}}
	all := make([]*service, n)
	for i := range all {
		v := &service{takes: takes, ping: ping}
		intercept := grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return p.unary(ctx, method, req, reply, cc, v.invoke, opts...)
		})
		var err error
		if v.cc, err = grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()), intercept); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.cc.Close() })
		all[i] = v
	}
	return p, all
}

func (c *conn) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent
}

// mutate sends a conditional mutation, and read a read, once.
func (p *pool) mutate(ctx context.Context, v *service) error {
	return p.unary(ctx, btpb.Bigtable_CheckAndMutateRow_FullMethodName, &btpb.CheckAndMutateRowRequest{}, nil, v.cc, v.invoke)
}

func (p *pool) read(ctx context.Context, v *service) error {
	s, err := p.stream(ctx, nil, v.cc, btpb.Bigtable_ReadRows_FullMethodName, v.open)
	if err != nil {
		return err
	}
	_ = s.SendMsg(&btpb.ReadRowsRequest{})
	_, _ = s.Header()
	for err == nil {
		err = s.RecvMsg(nil)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// traffic keeps connections busy until stop is called.
func (p *pool) traffic(ctx context.Context, every time.Duration, to ...*service) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, v := range to {
		running.Go(func() {
			for ctx.Err() == nil {
				_ = p.read(ctx, v)
				time.Sleep(every)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// What waits for a connection that answers nothing ends within 5 s, and what is sent on it later at
// once, until it answers a ping.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		p, v := newServices(t, 2, time.Millisecond, time.Millisecond)
		var began, ended atomic.Int64
		tell := func(silent bool) {
			if silent {
				began.Add(1)
			} else {
				ended.Add(1)
			}
		}
		p.tell.Store(&tell)
		stop := p.traffic(ctx, 100*time.Millisecond, v[1])
		defer stop()
		v[0].set(0, 0)
		for name, send := range map[string]func(context.Context, *service) error{"mutation": p.mutate, "read": p.read} {
			started := time.Now()
			if err, took := send(ctx, v[0]), time.Since(started); status.Code(err) != codes.Unavailable || took > quietAfter+pingWithin {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if err, took := send(ctx, v[0]), time.Since(started); status.Code(err) != codes.Unavailable || took > quietAfter+pingWithin {
				t.Errorf("%s: later %v after %v", name, err, took)
			}
			if began.Load()-ended.Load() != 1 {
				t.Errorf("%s: told of %d silences, and the end of %d", name, began.Load(), ended.Load())
			}
			v[0].set(time.Millisecond, time.Millisecond)
			for p.conn(v[0].cc).isSilent() {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if began.Load() != ended.Load() {
				t.Errorf("%s: told of %d silences, and the end of %d", name, began.Load(), ended.Load())
			}
			if err := send(ctx, v[0]); err != nil {
				t.Errorf("%s: on a connection that answers again: %v", name, err)
			}
			v[0].set(0, 0)
		}
	})
}

// Nothing that the store answers at all is given up because it is slow, and it is sent once: beside
// a slow tablet, in a store that is slow as a whole, whose pings are slow, and where nothing
// answers for a while.
func TestSlownessIsNotSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ slow, others, ping time.Duration }{
		"a tablet":             {28 * time.Second, time.Millisecond, time.Millisecond},
		"all tablets":          {28 * time.Second, 28 * time.Second, time.Millisecond},
		"no answer for a time": {28 * time.Second, 28 * time.Second, 28 * time.Second},
	} {
		for kind, send := range map[string]func(*pool, context.Context, *service) error{"mutation": (*pool).mutate, "read": (*pool).read} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					p, v := newServices(t, 3, c.slow, c.ping)
					for _, v := range v[1:] {
						v.set(c.others, c.ping)
					}
					stop := p.traffic(ctx, 100*time.Millisecond, v[1:]...)
					defer stop()
					if err := send(p, ctx, v[0]); err != nil {
						t.Error(err)
					}
					if sent, pings := v[0].counts(); sent != 1 || pings > 40 {
						t.Errorf("%d requests, %d pings", sent, pings)
					}
				})
			})
		}
	}
}

// Pings that are slow, as all is, are waited for longer from the second on: requests that are
// repeated elsewhere succeed.
func TestSlowPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		p, v := newServices(t, 4, 7*time.Second, 7*time.Second)
		stop := p.traffic(ctx, time.Second, v[1:]...)
		defer stop()
		time.Sleep(time.Minute)
		before, _ := v[0].counts()
		for range 50 {
			if err := p.mutate(ctx, v[0]); err != nil {
				t.Error(err)
			}
		}
		if sent, _ := v[0].counts(); sent-before != 50 {
			t.Errorf("%d requests for 50", sent-before)
		}
	})
}

// A connection on which nothing waits is not asked.
func TestIdleConnectionsAreNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, v := newServices(t, 2, time.Millisecond, time.Millisecond)
		for _, v := range v {
			if err := p.read(t.Context(), v); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour)
		for _, v := range v {
			synctest.Wait()
			if _, pings := v.counts(); pings > 0 {
				t.Errorf("%d pings", pings)
			}
			if c := p.conn(v.cc); c.watched {
				t.Error("its timer is still set")
			}
		}
	})
}
