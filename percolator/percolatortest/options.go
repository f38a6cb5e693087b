package percolatortest

import (
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// Option changes what New starts. A [ClientOption] is one too: it is for the environment's first
// client.
type Option interface{ applyEnv(*envSettings) }

// ClientOption changes a client.
type ClientOption interface {
	Option
	applyClient(*clientSettings)
}

type envSettings struct {
	address  string
	emulator []emulator.Option
	listen   bool
	connect  bool
	client   []ClientOption
}

type clientSettings struct {
	name      string
	configure []func(*percolator.Config)
	handler   func(Request) Action
}

type envOption func(*envSettings)

func (o envOption) applyEnv(s *envSettings) { o(s) }

type clientOption func(*clientSettings)

func (o clientOption) applyEnv(s *envSettings)       { s.client = append(s.client, o) }
func (o clientOption) applyClient(s *clientSettings) { o(s) }

// Address uses the Bigtable emulator that listens on addr (host:port) instead of one in this
// process. The environment's instance is a new one there, and its tables are deleted when the test
// ends.
func Address(addr string) Option {
	return envOption(func(s *envSettings) { s.address = addr })
}

// Emulator has the emulator in this process started with opts.
func Emulator(opts ...emulator.Option) Option {
	return envOption(func(s *envSettings) { s.emulator = append(s.emulator, opts...) })
}

// OverConnections has clients reach the emulator in this process by connections of gRPC, instead of
// as functions, so that a test can silence, reset or drain them ([emulator.Server.Connections]).
// Each request costs more of the processor then.
func OverConnections() Option {
	return envOption(func(s *envSettings) { s.connect = true })
}

// Configure makes f change the client's configuration, such as its LockTTL, before the client is
// made.
func Configure(f func(*percolator.Config)) ClientOption {
	return clientOption(func(s *clientSettings) { s.configure = append(s.configure, f) })
}

// Name names the client in its requests and errors. The default is client-1, client-2 and so on.
func Name(name string) ClientOption {
	return clientOption(func(s *clientSettings) { s.name = name })
}

// Handler is the client's [Faults.Handle] from its very first request, which it makes while it is
// being made.
func Handler(f func(Request) Action) ClientOption {
	return clientOption(func(s *clientSettings) { s.handler = f })
}
