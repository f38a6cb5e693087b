package store

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A connection may swallow everything: its host has died, or a NAT has forgotten it. Keepalive
// finds that out, but may take longer than a request has. So the client asks earlier. A connection
// that is quiet for quietAfter while requests wait for it gets a PingAndWarm, which needs no
// tablet. If that has no answer within pingWithin, although other connections have answered
// something since, the connection is silent: what waits for it fails with codes.Unavailable, and so
// does at once what is sent on it, until it answers a ping.
//
// Such a failure is like any other that leaves open whether a mutation was applied (I17): Google's
// client repeats reads and unconditional mutations, the engine what it may repeat of the rest. And
// Google's client keeps away, for 5 s each time, from a connection with errors of this code.
//
// What is slow keeps its requests: beside a slow tablet the ping is answered, and where the whole
// store is slow a ping may take twice as long as the slowest of the last seconds. Where nothing
// answers, nothing is given up, as repeating would not help. A ping can fail to be sent where as
// many requests as a connection may carry, 100, all wait for a slow tablet: they are then repeated
// elsewhere.
//
// Rejected: a deadline for each attempt. What takes a little longer is repeated until the request
// ends, and never succeeds, while quick answers from elsewhere keep the deadline short; and a store
// that is slow as a whole gets each request several times.
const (
	quietAfter = 2 * time.Second
	pingWithin = 3 * time.Second
	pingMost   = 30 * time.Second // a late answer still ends a silence
	warmWithin = 3 * time.Second  // for the first ping of a connection
)

// pool is the connections of one client of Google's.
type pool struct {
	life   context.Context // that of the client
	conns  sync.Map        // *grpc.ClientConn → *conn
	pings  slowness
	tell   atomic.Pointer[func(silent bool)]                             // called when a connection falls silent, and when that ends
	asked  atomic.Pointer[func(table string, sent time.Time, err error)] // called with each error
	warmed atomic.Bool                                                   // a connection has answered its first ping

	mu     sync.Mutex // guards what follows, which is that of Google's own pings
	ping   *btpb.PingAndWarmRequest
	header metadata.MD
}

// option is outside of all other interceptors: what they add is part of an attempt.
func (p *pool) option() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(p.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(p.stream)),
	}
}

// asking marks the context of a ping of ours.
type asking struct{}

func (p *pool) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if ping, ok := req.(*btpb.PingAndWarmRequest); ok {
		if ctx.Value(asking{}) != nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		p.conn(cc) // others ask it even if it has no requests
		return p.warm(ctx, ping, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
	a, err := p.conn(cc).start(ctx)
	if err != nil {
		return err
	}
	a.names(req)
	return a.end(invoke(a.ctx, method, req, reply, cc, opts...))
}

func (p *pool) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	a, err := p.conn(cc).start(ctx)
	if err != nil {
		return nil, err
	}
	s, err := open(a.ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, a.end(err)
	}
	return &watchedStream{s, a}, nil
}

// warm sends the ping of a new connection. Google's client fails as a whole with one that is
// silent; here it begins without it.
func (p *pool) warm(ctx context.Context, ping *btpb.PingAndWarmRequest, invoke func(context.Context) error) error {
	p.mu.Lock()
	p.ping = ping
	p.header, _ = metadata.FromOutgoingContext(ctx)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, warmWithin)
	defer cancel()
	err := invoke(ctx)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		if p.warmed.Load() { // another connection
			return nil
		}
	default:
		p.warmed.Store(true)
	}
	return err
}

// ask pings a connection. Any answer is one.
func (p *pool) ask(cc *grpc.ClientConn, within time.Duration) error {
	p.mu.Lock()
	ping, header := p.ping, p.header
	p.mu.Unlock()
	if ping == nil { // no connection was warmed, so nobody may be allowed to ask
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(metadata.NewOutgoingContext(p.life, header), asking{}, true), within)
	defer cancel()
	err := cc.Invoke(ctx, btpb.Bigtable_PingAndWarm_FullMethodName, ping, new(btpb.PingAndWarmResponse))
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return err
	}
	return nil
}

func (p *pool) conn(cc *grpc.ClientConn) *conn {
	if c, ok := p.conns.Load(cc); ok {
		return c.(*conn)
	}
	p.conns.Range(func(cc, _ any) bool { // Google's client replaces connections
		if cc.(*grpc.ClientConn).GetState() == connectivity.Shutdown {
			p.conns.Delete(cc)
		}
		return true
	})
	c, _ := p.conns.LoadOrStore(cc, &conn{pool: p, cc: cc, attempts: map[*attempt]struct{}{}})
	return c.(*conn)
}

// heardBeside reports whether a connection other than c has answered something since then.
func (p *pool) heardBeside(c *conn, since time.Time) (heard bool) {
	p.conns.Range(func(_, other any) bool {
		heard = other != c && other.(*conn).heard.Load() > since.UnixNano()
		return !heard
	})
	return heard
}

// askBeside reports whether a connection other than c answers, where requests are so few that none
// has been heard. It asks all that are idle, as several may have died at once. The others are
// watched, and asked anyway.
func (p *pool) askBeside(c *conn) bool {
	var idle []*conn
	p.conns.Range(func(_, o any) bool {
		if other := o.(*conn); other != c && other.isIdle() {
			idle = append(idle, other)
		}
		return true
	})
	answers := make(chan bool, len(idle))
	for _, other := range idle {
		go func() {
			answered := p.ask(other.cc, pingWithin) == nil
			if answered {
				other.heard.Store(time.Now().UnixNano())
			}
			answers <- answered
		}()
	}
	for range idle {
		if <-answers {
			return true
		}
	}
	return false
}

func (c *conn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.watched
}

// conn is a connection: idle, watched or silent. It is watched while attempts wait for it, and
// until a silence has ended.
type conn struct {
	pool  *pool
	cc    *grpc.ClientConn
	heard atomic.Int64 // when it last answered something, in Unix nanoseconds

	mu       sync.Mutex
	attempts map[*attempt]struct{} // none if silent
	watched  bool                  // check is due
	silent   bool                  // and watched
}

// attempt is one attempt of a request.
type attempt struct {
	conn    *conn
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time
	givenUp atomic.Bool
	table   string // "": not known
}

// names notes the table that a request names.
func (a *attempt) names(req any) {
	if r, ok := req.(interface{ GetTableName() string }); ok {
		a.table = r.GetTableName()[strings.LastIndexByte(r.GetTableName(), '/')+1:]
	}
}

// errSilent leaves open what became of the request.
var errSilent = status.Error(codes.Unavailable, "the connection to Bigtable is silent, and others are not")

// start begins an attempt on this connection.
func (c *conn) start(ctx context.Context) (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		return nil, errSilent
	}
	a := &attempt{conn: c, started: time.Now()}
	a.ctx, a.cancel = context.WithCancel(ctx)
	c.attempts[a] = struct{}{}
	if !c.watched {
		c.watched = true
		time.AfterFunc(quietAfter, c.check)
	}
	return a, nil
}

// answered notes that the server lives.
func (a *attempt) answered() { a.conn.heard.Store(time.Now().UnixNano()) }

// end ends an attempt with what came of it.
func (a *attempt) end(err error) error {
	if err == nil || err == io.EOF || a.ctx.Err() == nil && status.Code(err) != codes.Unavailable {
		a.answered()
	}
	a.cancel()
	a.conn.mu.Lock()
	delete(a.conn.attempts, a)
	a.conn.mu.Unlock()
	if err != nil && err != io.EOF && a.table != "" {
		if asked := a.conn.pool.asked.Load(); asked != nil {
			(*asked)(a.table, a.started, err)
		}
	}
	if err != nil && err != io.EOF && a.givenUp.Load() {
		AttemptsOf(a.ctx).lost()
		return errSilent
	}
	return err
}

// watchedStream is an attempt that has several answers.
type watchedStream struct {
	grpc.ClientStream
	attempt *attempt
}

func (s *watchedStream) SendMsg(m any) error {
	s.attempt.names(m)
	err := s.ClientStream.SendMsg(m)
	if err == nil || err == io.EOF { // RecvMsg says why
		return err
	}
	return s.attempt.end(err)
}

func (s *watchedStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err == nil && md != nil {
		s.attempt.answered()
	}
	return md, err
}

func (s *watchedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		return s.attempt.end(err)
	}
	s.attempt.answered()
	return nil
}

// check asks a connection that is quiet, and comes again while it is watched.
func (c *conn) check() {
	switch wait, watched := c.quietIn(); {
	case !watched:
	case wait > 0:
		time.AfterFunc(wait, c.check)
	default:
		c.question()
		time.AfterFunc(quietAfter, c.check)
	}
}

// quietIn says in what time to ask, and whether to go on. It forgets attempts whose callers have
// left without reading to the end.
func (c *conn) quietIn() (wait time.Duration, watched bool) {
	closed := c.cc.GetState() == connectivity.Shutdown || c.pool.life.Err() != nil
	if closed {
		c.pool.conns.Delete(c.cc)
		c.fall(false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	oldest := now
	for a := range c.attempts {
		if a.ctx.Err() != nil {
			delete(c.attempts, a)
		} else if a.started.Before(oldest) {
			oldest = a.started
		}
	}
	c.watched = !closed && (c.silent || len(c.attempts) > 0)
	if c.silent {
		return 0, c.watched
	}
	quiet := now.Sub(oldest)
	if heard := c.heard.Load(); heard > 0 {
		quiet = min(quiet, now.Sub(time.Unix(0, heard)))
	}
	return quietAfter - quiet, c.watched
}

// question pings the connection. While no answer comes it decides again and again, as other
// connections may be the first to come back.
func (c *conn) question() {
	asked := time.Now()
	answer := make(chan error, 1)
	go func() { answer <- c.pool.ask(c.cc, pingMost) }()
	verdict := time.NewTicker(min(max(pingWithin, 2*c.pool.pings.Recent()), pingMost))
	defer verdict.Stop()
	for {
		select {
		case err := <-answer:
			if err == nil {
				c.pool.pings.Note(time.Since(asked))
				c.heard.Store(time.Now().UnixNano())
				c.fall(false)
			}
			return
		case <-verdict.C:
			if c.heard.Load() <= asked.UnixNano() && (c.pool.heardBeside(c, asked) || c.pool.askBeside(c)) {
				c.fall(true)
			}
		}
	}
}

// fall notes that the connection is silent, or is no longer. Whatever waits for a silent one is
// given up.
func (c *conn) fall(silent bool) {
	c.mu.Lock()
	changed := c.silent != silent
	c.silent = silent
	for a := range c.attempts {
		if silent {
			a.givenUp.Store(true)
			a.cancel()
			delete(c.attempts, a)
		}
	}
	c.mu.Unlock()
	if tell := c.pool.tell.Load(); changed && tell != nil {
		(*tell)(silent)
	}
}
