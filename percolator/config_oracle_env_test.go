package percolator_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/testing/testca"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// A client that dials the oracle itself takes the certificates from the environment.
func TestOracleOverTLSFromTheEnvironment(t *testing.T) {
	fixture.Long(t)
	env := fixture.NewEnv(t)
	dir, ca := t.TempDir(), testca.New(t)
	cert := ca.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	files := tso.TLSFiles{
		Cert: testca.Write(t, dir, "cert.pem", cert.PEM), Key: testca.Write(t, dir, "cert.key", cert.Key), CA: testca.Write(t, dir, "ca.pem", ca.PEM),
	}
	creds, err := files.ServerCredentials()
	fixture.Must(t, err)
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Credentials: creds})
	fixture.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	cfg := percolator.Config{Project: env.Project, Instance: env.Instance}
	t.Setenv("PERCOLATOR_TSO_ADDR", l.Addr().String())
	t.Setenv(tso.EnvCA, files.CA)
	t.Setenv(tso.EnvCert, files.Cert)
	fixture.WantErr(t, fixture.ErrOf(percolator.NewClient(fixture.Context(t), cfg, env.Options()...)), percolator.ErrInvalidArgument) // no key
	t.Setenv(tso.EnvKey, files.Key)
	c, err := percolator.NewClient(fixture.Context(t), cfg, env.Options()...)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, fixture.Context(t), c)
	fixture.Must(t, tx.Rollback(fixture.Context(t)))
	fixture.Must(t, c.Close())

	t.Setenv(tso.EnvCA, "")
	t.Setenv(tso.EnvCert, "")
	t.Setenv(tso.EnvKey, "")
	short, cancel := context.WithTimeout(fixture.Context(t), 200*time.Millisecond)
	defer cancel()
	fixture.WantErr(t, fixture.ErrOf(percolator.NewClient(short, cfg, env.Options()...)), context.DeadlineExceeded) // plaintext
}
