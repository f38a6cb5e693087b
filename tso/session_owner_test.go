package tso

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/testca"
	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// sessionsAs returns a client of a server's sessions with a new certificate for name.
func (d *tlsDir) sessionsAs(t *testing.T, name, address string) tsopb.SessionsClient {
	t.Helper()
	cert := d.ca.Issue(t, name, time.Now().Add(time.Hour))
	files := TLSFiles{CA: d.client.CA,
		Cert: testca.Write(t, d.path, name+".pem", cert.PEM), Key: testca.Write(t, d.path, name+".key", cert.Key)}
	creds, err := files.ClientCredentials()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return tsopb.NewSessionsClient(conn)
}

// A session belongs to the identity that has opened it, whatever connection, certificate or leader
// it comes with. Who has only read its id can neither renew nor end it.
func TestSessionsBelongToAnIdentity(t *testing.T) {
	t.Parallel()
	d, store := newTLSDir(t), NewMemoryStore()
	start := func() *served {
		s := startServing(t, store, ServerConfig{Credentials: d.serverCreds(t), SessionLease: time.Hour})
		mustNext(t, s)
		return s
	}
	s := start()
	var session *tsopb.OpenSessionResponse
	eventually(t, "a session is open", func() (ok bool) {
		var err error
		session, err = d.sessionsAs(t, "owner", s.address).OpenSession(t.Context(), &tsopb.OpenSessionRequest{})
		return err == nil
	})
	if !record.IsSessionID(session.Id) || len(session.Id) != boundIDChars {
		t.Errorf("the id %q", session.Id)
	}
	keepAlive := func(c tsopb.SessionsClient) codes.Code {
		_, err := c.KeepAlive(t.Context(), &tsopb.KeepAliveRequest{Id: session.Id})
		return status.Code(err)
	}
	check := func(s *served) {
		t.Helper()
		eventually(t, "the sessions are loaded", func() bool {
			return keepAlive(d.sessionsAs(t, "owner", s.address)) == codes.OK
		})
		thief := d.sessionsAs(t, "thief", s.address)
		if code := keepAlive(thief); code != codes.PermissionDenied {
			t.Errorf("another identity renews: %v", code)
		}
		if _, err := thief.CloseSession(t.Context(), &tsopb.CloseSessionRequest{Id: session.Id}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("another identity ends it: %v", err)
		}
		if code := keepAlive(d.sessionsAs(t, "owner", s.address)); code != codes.OK {
			t.Errorf("its owner, with a new certificate: %v", code)
		}
	}
	check(s)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	s = start()
	check(s)
	owner := d.sessionsAs(t, "owner", s.address)
	if _, err := owner.CloseSession(t.Context(), &tsopb.CloseSessionRequest{Id: session.Id}); err != nil {
		t.Error(err)
	}
	if code := keepAlive(owner); code != codes.NotFound {
		t.Errorf("renewing what its owner has ended: %v", code)
	}
}

func TestMayEnd(t *testing.T) {
	t.Parallel()
	bound, free := newSessionID("uri:spiffe://a"), newSessionID("")
	for _, c := range []struct {
		id, owner string
		want      bool
	}{
		{bound, "uri:spiffe://a", true}, {bound, "uri:spiffe://b", false}, {bound, "", false},
		{free, "", true}, {free, "uri:spiffe://a", true},
		{"!" + bound[1:], "uri:spiffe://a", false},
	} {
		if got := mayEnd(c.id, c.owner); got != c.want {
			t.Errorf("%q and %q: %v", c.id, c.owner, got)
		}
	}
}

// An identity is only what has been proven, and does not change with the certificate.
func TestIdentityOf(t *testing.T) {
	t.Parallel()
	spiffe, err := url.Parse("spiffe://example.org/worker")
	if err != nil {
		t.Fatal(err)
	}
	proven := func(cert x509.Certificate) credentials.AuthInfo {
		return credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&cert}}}}
	}
	for want, info := range map[string]credentials.AuthInfo{
		"uri:spiffe://example.org/worker": proven(x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"a"}}),
		"dns:a":                           proven(x509.Certificate{DNSNames: []string{"a", "b"}}),
		"email:a@b":                       proven(x509.Certificate{EmailAddresses: []string{"a@b"}, RawSubject: []byte("x")}),
		"ip:192.0.2.1":                    proven(x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}),
		"subject:x":                       proven(x509.Certificate{Subject: pkix.Name{CommonName: "a"}, RawSubject: []byte("x")}),
		"account:a@p":                     altsInfo{},
	} {
		if got := identityOf(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	unproven := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: []string{"a"}}}}}
	for _, info := range []credentials.AuthInfo{nil, unproven} {
		if got := identityOf(info); got != "" {
			t.Errorf("%q, which nobody has proven", got)
		}
	}
}

type altsInfo struct{ credentials.AuthInfo }

func (altsInfo) PeerServiceAccount() string { return "a@p" }

// A peer has its share of the sessions, from when it opens them until the store has forgotten them,
// and no more after a change of leader.
func TestSessionsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		cfg := ServerConfig{MaxSessions: 8, SessionLease: time.Minute}
		a := startLeader(t, store, cfg)
		here, there := from(t.Context(), "192.0.2.1"), from(t.Context(), "192.0.2.2")
		open := func(r *runner, ctx context.Context) (string, error) {
			g, err := r.keeper().open(ctx)
			return g.id, err
		}
		var ids []string
		for range 2 {
			id, err := open(a, here)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if _, err := open(a, here); !errors.Is(err, ErrLimit) {
			t.Errorf("above the share: %v", err)
		}
		if _, err := open(a, there); err != nil {
			t.Errorf("another peer: %v", err)
		}
		if err := a.keeper().end(here, ids[0]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id, err := open(a, here)
		if err != nil {
			t.Fatalf("after one has ended: %v", err)
		}
		ids[0] = id
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}

		b := startLeader(t, store, cfg)
		if _, err := b.keeper().keepAlive(here, ids[0]); err != nil {
			t.Error(err)
		}
		if _, err := open(b, here); err != nil {
			t.Errorf("within the share: %v", err)
		}
		if _, err := b.keeper().keepAlive(here, ids[1]); !errors.Is(err, ErrLimit) {
			t.Errorf("claiming another: %v", err)
		}
		time.Sleep(2 * time.Minute) // nobody has renewed any
		synctest.Wait()
		if q := b.liveness.current.Load().sessions.claimed; q.Used() != 0 || b.liveness.current.Load().sessions.count() != 0 {
			t.Errorf("%d are claimed", q.Used())
		}
	})
}
