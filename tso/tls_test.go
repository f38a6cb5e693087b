package tso

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/gopercolator/percolator/internal/testing/testca"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// tlsDir is a directory with the files of a server and of a client, which know each
// other.
type tlsDir struct {
	path           string
	ca             *testca.CA
	server, client TLSFiles
}

const loopback = "127.0.0.1"

// always makes every handshake look at the files.
const always = time.Nanosecond

func newTLSDir(t testing.TB) *tlsDir {
	t.Helper()
	d := &tlsDir{path: t.TempDir(), ca: testca.New(t)}
	ca := testca.Write(t, d.path, "ca.pem", d.ca.PEM)
	d.issue(t, d.ca, "server")
	d.issue(t, d.ca, "client")
	file := func(name string) string { return d.path + "/" + name }
	d.server = TLSFiles{Cert: file("server.pem"), Key: file("server.key"), CA: ca, Refresh: always}
	d.client = TLSFiles{Cert: file("client.pem"), Key: file("client.key"), CA: ca, Refresh: always}
	return d
}

// issue writes a new certificate for side.
func (d *tlsDir) issue(t testing.TB, ca *testca.CA, side string) testca.Cert {
	t.Helper()
	cert := ca.Issue(t, loopback, time.Now().Add(time.Hour))
	testca.Write(t, d.path, side+".pem", cert.PEM)
	testca.Write(t, d.path, side+".key", cert.Key)
	return cert
}

func (d *tlsDir) serverCreds(t testing.TB) credentials.TransportCredentials {
	t.Helper()
	creds, err := d.server.ServerCredentials()
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

func (d *tlsDir) clientCreds(t testing.TB) credentials.TransportCredentials {
	t.Helper()
	creds, err := d.client.ClientCredentials()
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

// serial asks a server over a new connection and returns the serial number of its
// certificate.
func serial(t *testing.T, address string, creds credentials.TransportCredentials) (string, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return serialOn(t, conn)
}

func serialOn(t *testing.T, conn *grpc.ClientConn) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var p grpcpeer.Peer
	if _, err := tsopb.NewStatusClient(conn).GetStatus(ctx, &tsopb.GetStatusRequest{}, grpc.Peer(&p)); err != nil {
		return "", err
	}
	return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber.String(), nil
}

// Leaders that followers name are called with the same credentials as the targets.
func TestServerTLS(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	store := NewMemoryStore()
	a := startServing(t, store, ServerConfig{Credentials: d.serverCreds(t)})
	mustNext(t, a)
	b := startServing(t, store, ServerConfig{Credentials: d.serverCreds(t)})
	mustNext(t, dial(t, b.address, WithTransportCredentials(d.clientCreds(t))))
	if client, err := Dial(t.Context(), a.address, WithTimeout(500*time.Millisecond)); err == nil {
		t.Error("plaintext was accepted")
		_ = client.Close()
	}
}

// A new connection uses the new certificate; the one that exists goes on with the old.
func TestTLSRotatesTheServersCertificate(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	old, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(d.clientCreds(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	first, err := serialOn(t, old)
	if err != nil {
		t.Fatal(err)
	}
	next := d.issue(t, d.ca, "server").Serial.String()
	if got, err := serial(t, s.address, d.clientCreds(t)); err != nil || got != next {
		t.Errorf("a new connection: certificate %s, %v, want %s", got, err, next)
	}
	if got, err := serialOn(t, old); err != nil || got != first {
		t.Errorf("the old connection: certificate %s, %v, want %s", got, err, first)
	}
}

// Both sides move from one authority to another: first both are trusted, then both
// certificates change, then the old authority goes.
func TestTLSRotatesTheAuthority(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	creds := d.clientCreds(t) // one client for the whole time
	works := func(when string) {
		t.Helper()
		if _, err := serial(t, s.address, creds); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	works("before")
	successor := testca.New(t)
	testca.Write(t, d.path, "ca.pem", append(append([]byte(nil), d.ca.PEM...), successor.PEM...))
	works("with both authorities")
	d.issue(t, successor, "server")
	works("with the server's new certificate")
	d.issue(t, successor, "client")
	works("with the client's new certificate")
	testca.Write(t, d.path, "ca.pem", successor.PEM)
	works("without the old authority")
	stale := newTLSDir(t)
	stale.issue(t, d.ca, "client")
	testca.Write(t, stale.path, "ca.pem", successor.PEM)
	if _, err := serial(t, s.address, stale.clientCreds(t)); err == nil {
		t.Error("a certificate of the old authority is still accepted")
	}
}

func TestTLSRefuses(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	stranger := newTLSDir(t)
	bare := d.client
	bare.Cert, bare.Key = "", ""
	strange := stranger.client
	strange.CA = d.client.CA
	trusting := d.client
	trusting.CA = stranger.client.CA
	named := d.client
	named.ServerName = "oracle.example"
	for name, files := range map[string]TLSFiles{
		"a client without a certificate":          bare,
		"a client's certificate of another CA":    strange,
		"a server's certificate of another CA":    trusting,
		"a server's certificate for another name": named,
	} {
		creds, err := files.ClientCredentials()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := serial(t, s.address, creds); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
	if _, err := serial(t, s.address, d.clientCreds(t)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A certificate that expires while it is in use is refused from then on by whoever is
// shown it.
func TestTLSRefusesExpired(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	for _, side := range []string{"server", "client"} {
		expired := d.ca.Issue(t, loopback, time.Now().Add(-time.Minute))
		pems := pemFiles{cert: expired.PEM, key: expired.Key}
		if _, err := parsePair("x", pems); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("the file of an expired certificate: %v", err)
		}
		serverCreds, clientCreds := d.serverCreds(t), d.clientCreds(t)
		used := serverCreds
		if side == "client" {
			used = clientCreds
		}
		plant(t, used, expired)
		s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: serverCreds})
		if _, err := serial(t, s.address, clientCreds); err == nil {
			t.Errorf("an expired certificate of the %s is accepted", side)
		}
	}
}

// plant makes creds show cert, whatever the files hold.
func plant(t *testing.T, creds credentials.TransportCredentials, cert testca.Cert) {
	t.Helper()
	r := creds.(*fileCredentials).reloader
	r.files.Refresh = time.Hour
	pair, err := tls.X509KeyPair(cert.PEM, cert.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.contents.ca) {
		t.Fatal("no authority")
	}
	r.current = credentials.NewTLS(r.side(&pair, roots))
}

// A certificate that is not valid yet, which every client would refuse, is not used yet.
func TestTLSUsesACertificateOnceItIsValid(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	before, err := serial(t, s.address, d.clientCreds(t))
	if err != nil {
		t.Fatal(err)
	}
	client := d.clientCreds(t)
	client.(*fileCredentials).reloader.files.Refresh = time.Hour // it has its own copy
	ahead := d.ca.IssueAhead(t, loopback, time.Now().Add(time.Hour))
	testca.Write(t, d.path, "server.key", ahead.Key)
	testca.Write(t, d.path, "server.pem", ahead.PEM)
	if got, err := serial(t, s.address, client); err != nil || got != before {
		t.Errorf("certificate %s, %v, want %s", got, err, before)
	}
}

// Whatever an operator leaves in the files, the former certificates stay in use, and the
// log says so once for each state, without the contents.
func TestTLSKeepsTheFormerCertificates(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	var out strings.Builder
	d.server.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	before, err := serial(t, s.address, d.clientCreds(t))
	if err != nil {
		t.Fatal(err)
	}
	other := d.ca.Issue(t, loopback, time.Now().Add(time.Hour))
	expired := d.ca.Issue(t, loopback, time.Now().Add(-time.Minute))
	ok, err := os.ReadFile(d.server.Cert)
	if err != nil {
		t.Fatal(err)
	}
	states := []struct {
		name, file string
		content    []byte
	}{
		{"half a certificate", "server.pem", ok[:len(ok)/2]},
		{"another key's certificate", "server.pem", other.PEM},
		{"an expired certificate", "server.pem", expired.PEM},
		{"an empty file", "server.pem", nil},
		{"no PEM", "server.pem", []byte("certificate to follow")},
		{"a key instead of a certificate", "server.pem", other.Key},
		{"a large file", "server.pem", make([]byte, maxPEMBytes+1)},
		{"half an authority", "ca.pem", d.ca.PEM[:len(d.ca.PEM)-40]},
		{"a whole and half an authority", "ca.pem", append(append([]byte(nil), d.ca.PEM...), d.ca.PEM[:100]...)},
		{"half and a whole authority", "ca.pem", append(append([]byte(nil), d.ca.PEM[:100]...), d.ca.PEM...)},
	}
	for _, state := range states {
		was, err := os.ReadFile(d.path + "/" + state.file)
		if err != nil {
			t.Fatal(err)
		}
		client := d.clientCreds(t)
		client.(*fileCredentials).reloader.files.Refresh = time.Hour // it has its own copy
		testca.Write(t, d.path, state.file, state.content)
		for range 2 {
			if got, err := serial(t, s.address, client); err != nil || got != before {
				t.Errorf("%s: certificate %s, %v, want %s", state.name, got, err, before)
			}
		}
		testca.Write(t, d.path, state.file, was)
		if got, err := serial(t, s.address, client); err != nil || got != before {
			t.Errorf("after %s: certificate %s, %v, want %s", state.name, got, err, before)
		}
	}
	log := func() string { // handshakes are over: nobody writes any more
		s.stop()
		<-s.ended
		return out.String()
	}()
	if got := strings.Count(log, "cannot be used"); got != len(states) {
		t.Errorf("%d states are logged %d times:\n%s", len(states), got, log)
	}
	for _, secret := range []string{"PRIVATE", "BEGIN", strings.Split(string(other.Key), "\n")[1]} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

// A certificate that is about to expire is announced once, not at every connection.
func TestTLSAnnouncesExpiry(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t) // whose certificates live for an hour
	var out strings.Builder
	d.server.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	for range 3 {
		if _, err := serial(t, s.address, d.clientCreds(t)); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	<-s.ended
	if got := strings.Count(out.String(), "expires soon"); got != 1 {
		t.Errorf("announced %d times:\n%s", got, out.String())
	}
}

// Files that cannot be used in the beginning are an error at once.
func TestTLSFilesAtTheStart(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	missing := d.path + "/missing"
	for name, f := range map[string]func(*TLSFiles){
		"no certificate":       func(f *TLSFiles) { f.Cert = "" },
		"no key":               func(f *TLSFiles) { f.Key = "" },
		"missing certificate":  func(f *TLSFiles) { f.Cert = missing },
		"missing key":          func(f *TLSFiles) { f.Key = missing },
		"missing authorities":  func(f *TLSFiles) { f.CA = missing },
		"another's key":        func(f *TLSFiles) { f.Key = d.client.Key },
		"a directory":          func(f *TLSFiles) { f.CA = d.path },
		"a key as authorities": func(f *TLSFiles) { f.CA = f.Key },
		"negative refresh":     func(f *TLSFiles) { f.Refresh = -1 },
	} {
		server, client := d.server, d.client
		client.Key, client.Cert = server.Key, server.Cert
		f(&server)
		f(&client)
		if _, err := server.ServerCredentials(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("server, %s: %v", name, err)
		}
		if _, err := client.ClientCredentials(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("client, %s: %v", name, err)
		}
	}
	named := d.server
	named.ServerName = "x"
	if _, err := named.ServerCredentials(); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a server with a server name: %v", err)
	}
	if _, err := (TLSFiles{}).ClientCredentials(); err != nil {
		t.Errorf("a client that trusts its system: %v", err)
	}
}

// A client does not send what others could change, unless it is told to: neither to its
// targets nor to a leader that somebody names.
func TestDialPlaintextStaysOnLoopback(t *testing.T) {
	t.Parallel()
	for target, local := range map[string]bool{
		"127.0.0.1:7070": true, "[::1]:7070": true, "localhost:7070": true, "127.8.8.8:7070": true,
		"192.0.2.1:7070": false, "oracle:7070": false, "[2001:db8::1]:7070": false, "localhost.example:7070": false,
	} {
		if err := newDialOptions(nil).checkPlaintext(target); (err == nil) != local {
			t.Errorf("%s: %v", target, err)
		}
		for _, opt := range []DialOption{WithPlaintext(), WithTransportCredentials(insecure.NewCredentials())} {
			if err := newDialOptions([]DialOption{opt}).checkPlaintext(target); err != nil {
				t.Errorf("%s, allowed: %v", target, err)
			}
		}
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1,192.0.2.1:7070"); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "WithPlaintext") {
		t.Errorf("Dial: %v", err)
	}
	p := newPeers([]string{net.JoinHostPort(loopback, "1")}, newDialOptions(nil))
	if named := p.get("192.0.2.1:7070"); !errors.Is(named.err, ErrInvalidArgument) || named.conn != nil {
		t.Errorf("a leader that was named: %v", named.err)
	}
}

func TestDialOptionsFromEnv(t *testing.T) {
	d := newTLSDir(t)
	s := startServing(t, NewMemoryStore(), ServerConfig{Credentials: d.serverCreds(t)})
	t.Setenv(EnvCA, d.client.CA)
	t.Setenv(EnvCert, d.client.Cert)
	t.Setenv(EnvKey, d.client.Key)
	opts, err := DialOptionsFromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	mustNext(t, dial(t, s.address, opts...))
	t.Setenv(EnvKey, "")
	if _, err := DialOptionsFromEnv(nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a certificate without a key: %v", err)
	}
	t.Setenv(EnvCA, "")
	t.Setenv(EnvCert, "")
	for text, want := range map[string]bool{"": false, "false": false, "1": true, "true": true} {
		t.Setenv(EnvInsecure, text)
		opts, err := DialOptionsFromEnv(nil)
		if err != nil || newDialOptions(opts).plaintext != want {
			t.Errorf("%s=%q: %v", EnvInsecure, text, err)
		}
	}
	t.Setenv(EnvInsecure, "perhaps")
	if _, err := DialOptionsFromEnv(nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("%s=perhaps: %v", EnvInsecure, err)
	}
}
