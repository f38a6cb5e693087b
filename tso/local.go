package tso

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// local is a connection to a server in the same process, without a network.
type local struct {
	methods map[string]localMethod // by full name
	calls   callCap
}

type localMethod struct {
	service any
	handle  grpc.MethodHandler
}

// Local returns a connection to the services of this server for callers in the same process, which
// need no network: they get the answers and errors of [Server.Serve]. Each connection takes
// ServerConfig.MaxCalls calls at once. It has no streams. Any number of goroutines may use it, and
// it needs no Close. The server itself must run ([Server.Run]).
func (s *Server) Local() grpc.ClientConnInterface {
	l := &local{methods: map[string]localMethod{}, calls: newCallCap(s.cfg.MaxCalls, s.cfg.PeerShare)}
	s.register(l)
	return l
}

// RegisterService implements [grpc.ServiceRegistrar].
func (l *local) RegisterService(d *grpc.ServiceDesc, service any) {
	for _, m := range d.Methods {
		l.methods["/"+d.ServiceName+"/"+m.MethodName] = localMethod{service, m.Handler}
	}
}

// Invoke implements [grpc.ClientConnInterface]. Both sides have messages of their own.
func (l *local) Invoke(ctx context.Context, method string, req, reply any, _ ...grpc.CallOption) error {
	m, ok := l.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	decode := func(into any) error { return copyMessage(into, req) }
	answer, err := m.handle(m.service, ctx, decode, l.intercept)
	if ended := ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	if err != nil {
		return err
	}
	return copyMessage(reply, answer)
}

// intercept is what interceptors do in [Server.Serve].
func (l *local) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return l.calls.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return withStatus(ctx, req, info, handle)
	})
}

// NewStream implements [grpc.ClientConnInterface].
func (l *local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams within a process")
}

func copyMessage(into, from any) error {
	b, err := proto.Marshal(from.(proto.Message))
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, into.(proto.Message))
}
