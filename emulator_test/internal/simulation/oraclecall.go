package simulation

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/tso"
)

// oracleLine is how a process calls the oracle: the shipped client, whose calls take time and fail.
type oracleLine struct {
	oracle  *oracle
	process string
	gate    *gate
	rate    func() float64
}

// dial returns the process's client of the oracle.
func (l *oracleLine) dial(ctx context.Context) (*tso.Client, error) {
	return tso.Dial(ctx, l.oracle.targets(), tso.WithGRPCDialOptions(grpc.WithUnaryInterceptor(l.call)))
}

// call is one call with its fate. It goes to the server within the process, over no network.
func (l *oracleLine) call(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	r := l.oracle.dice.next("oracle", l.process, method)
	f := l.oracle.tally.oneOf(r, l.rate(), oracleRequestLost, oracleAnswerLost, oracleRefused, oracleFailedAfter, oracleSlow)
	there, back := latency(r, 200*time.Microsecond), latency(r, 200*time.Microsecond)
	if f == oracleSlow {
		back += time.Duration(r.Int64N(int64(2 * time.Second)))
	}
	if err := l.travel(ctx, there); err != nil {
		return err
	}
	if err := l.gate.reach(ctx); err != nil {
		return status.FromContextError(err).Err()
	}
	server := l.oracle.at(cc.Target())
	switch {
	case server == nil || f == oracleRefused:
		return status.Error(codes.Unavailable, "connection refused")
	case f == oracleRequestLost:
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if err := server.gate.pass(ctx); err != nil {
		return status.FromContextError(err).Err()
	}
	err := server.calls.Invoke(ctx, method, req, reply)
	if perr := server.gate.pass(ctx); perr != nil {
		return status.FromContextError(perr).Err()
	}
	switch {
	case f == oracleAnswerLost || server.store.dead.Load():
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case f == oracleFailedAfter:
		return status.Error(codes.Unavailable, "connection reset")
	}
	if terr := l.travel(ctx, back); terr != nil {
		return terr
	}
	if cerr := l.gate.reach(ctx); cerr != nil {
		return status.FromContextError(cerr).Err()
	}
	return err
}

// travel is the way of a request, or of an answer, which a process that is stopped neither sends
// nor sees.
func (l *oracleLine) travel(ctx context.Context, d time.Duration) error {
	if err := l.gate.pass(ctx); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := retry.Sleep(ctx, d); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := l.gate.pass(ctx); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// forgetful is the oracle as a process sees it, whose answers about sessions are wrong now and
// then.
type forgetful struct {
	*tso.Client
	line *oracleLine
}

// EndedSessions says of sessions that live that they have ended.
func (o forgetful) EndedSessions(ctx context.Context, ids ...string) ([]string, error) {
	r := o.line.oracle.dice.next("sessions", o.line.process)
	switch o.line.oracle.tally.oneOf(r, 5*o.line.rate(), sessionEnded, sessionsSilent) {
	case sessionEnded:
		return ids, nil
	case sessionsSilent:
		return nil, tso.ErrUnavailable
	}
	return o.Client.EndedSessions(ctx, ids...)
}
