package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/oracle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/testing/testca"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

func TestServeRefuses(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator := onBigtable(startBigtable(t))
	dir := t.TempDir()
	cert := testca.New(t).Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	certFile, keyFile := testca.Write(t, dir, "cert", cert.PEM), testca.Write(t, dir, "key", cert.Key)
	instance := []string{"tso", "serve", "--project", "p", "--instance", "i", "--admin", "", "--listen"}
	serve := func(args ...string) []string { return append(instance[:len(instance):len(instance)], args...) }
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no store":                {[]string{"tso", "serve"}, "--spanner"},
		"two stores":              {serve(":0", "--spanner", "projects/p/instances/i/databases/d"), "--spanner"},
		"half an instance":        {[]string{"tso", "serve", "--project", "p"}, "--instance"},
		"plaintext everywhere":    {serve(":0"), "--insecure"},
		"nothing to advertise":    {serve(":0", "--insecure"), "--advertise"},
		"TLS without a name":      {serve(":0", "--tls-cert", certFile, "--tls-key", keyFile), "--advertise"},
		"a bad window":            {serve("127.0.0.1:0", "--window", "-1s"), "Window"},
		"a bad name":              {serve("127.0.0.1:0", "--name", ""), "name"},
		"a bad listener":          {serve("127.0.0.1:99999"), "99999"},
		"a bad limit":             {serve("127.0.0.1:0", "--max-calls", "-1"), "MaxCalls"},
		"an argument":             {serve("127.0.0.1:0", "more"), "more"},
		"an unknown flag":         {serve("127.0.0.1:0", "--nonsense"), "nonsense"},
		"a bad log":               {serve("127.0.0.1:0", "--log-format", "xml"), "xml"},
		"a certificate alone":     {serve("127.0.0.1:0", "--tls-cert", certFile), "key"},
		"authorities alone":       {serve("127.0.0.1:0", "--tls-client-ca", certFile), "certificate"},
		"a missing file":          {serve("127.0.0.1:0", "--tls-cert", certFile, "--tls-key", dir+"/none"), "none"},
		"ALTS and TLS":            {serve("127.0.0.1:0", "--alts", "--tls-cert", certFile, "--tls-key", keyFile), "--alts"},
		"a public admin":          {append(serve("127.0.0.1:0"), "--admin", ":0"), "--admin-public"},
		"a bad admin":             {append(serve("127.0.0.1:0"), "--admin", "nonsense"), "--admin"},
		"an unknown command":      {[]string{"tso", "nonsense"}, "nonsense"},
		"an unknown root command": {[]string{"nonsense"}, "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, emulator, c.args...)
			if code := p.wait(t); code != cli.ExitUsage || !strings.Contains(p.stderr.String(), c.want) {
				t.Errorf("exit status %d, %q, want %d and %q", code, p.stderr.String(), cli.ExitUsage, c.want)
			}
			if p.stdout.String() != "" {
				t.Errorf("the standard output has %q", p.stdout.String())
			}
		})
	}
}

// A server that finds no table, or no record, says what to do.
func TestServeBeforeInit(t *testing.T) {
	t.Parallel()
	empty, _ := startEmulator(t)
	args := []string{"tso", "serve", "--listen", "127.0.0.1:0", "--admin", "", "--project", "p", "--instance", "i"}
	p := start(t, onBigtable(empty), args...)
	if code := p.wait(t); code != cli.ExitFailure || !strings.Contains(p.stderr.String(), tso.BigtableTable) || !strings.Contains(p.stderr.String(), "percolator init") {
		t.Errorf("without a table: exit status %d, %q", code, p.stderr.String())
	}
	p = start(t, onBigtable(startBigtable(t)), append(args, "--name", "other")...)
	if code := p.wait(t); code != cli.ExitRecord || !strings.Contains(p.stderr.String(), "percolator init") {
		t.Errorf("without a record: exit status %d, %q", code, p.stderr.String())
	}
}

// The lease is a minute and the successor leads at once: it did not wait for the lease.
func TestServeHandsOver(t *testing.T) {
	t.Parallel()
	emulator := startBigtable(t)
	long := []string{"--lease", "1m", "--window", "3s"}
	a, _ := startServer(t, emulator, long...)
	a.awaitLog(t, lead)
	b, address := startServer(t, emulator, long...)
	b.awaitLog(t, `serving /healthz`)
	client, err := tso.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	before := take(t, client)
	was, err := tso.AskStatus(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a.signal(t, syscall.SIGTERM)
	b.awaitLog(t, lead)
	took := time.Since(began)
	if ts := take(t, client); ts <= before {
		t.Errorf("%d after %d", ts, before)
	}
	is, err := tso.AskStatus(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if !is.GetLeading() || is.GetEpoch() != was.GetEpoch()+1 {
		t.Errorf("the successor: %v, before %v", is, was)
	}
	if log := b.stderr.String(); strings.Contains(log, "has run out") {
		t.Error("the successor waited for the lease")
	}
	if code := a.wait(t); code != cli.ExitOK {
		t.Errorf("exit status %d", code)
	}
	t.Logf("from SIGTERM until the successor led: %v", took)
}

func adminOf(t *testing.T, p *program) string {
	t.Helper()
	return "http://" + p.awaitLog(t, `serving /healthz.* address=(\S+)`)
}

// answered reports whether a request with the header line is served. The server may cut
// the connection before all of it was sent.
func answered(t *testing.T, admin, header string) bool {
	t.Helper()
	host := strings.TrimPrefix(admin, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n"+header+"\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	return strings.HasPrefix(string(answer), "HTTP/1.1 200 ")
}

// get returns the status and body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// awaitPage waits until a page has a status and a body that pattern matches.
func awaitPage(t *testing.T, url string, code int, pattern string) {
	t.Helper()
	var got int
	var body string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got, body = get(t, url); got == code && regexp.MustCompile(pattern).MatchString(body) {
			return
		}
	}
	t.Fatalf("%s: %d %q, want %d %q", url, got, body, code, pattern)
}

func TestAdmin(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator, stopStore := startEmulator(t)
	if code := start(t, onBigtable(emulator), "init", "--project", "p", "--instance", "i").wait(t); code != cli.ExitOK {
		t.Fatal("init")
	}
	a, addressA := startServer(t, emulator, "--lease", "500ms", "--window", "500ms")
	a.awaitLog(t, lead)
	b, _ := startServer(t, emulator, "--lease", "500ms", "--window", "500ms")
	adminA, adminB := adminOf(t, a), adminOf(t, b)
	awaitPage(t, adminA+"/readyz", http.StatusOK, "^leading\n$")
	awaitPage(t, adminB+"/readyz", http.StatusOK, "^following "+regexp.QuoteMeta(addressA)+"\n$")
	awaitPage(t, adminB+"/healthz", http.StatusOK, "^ok\n$")
	for _, metric := range []string{
		"percolator_tso_leading 1", `percolator_tso_elections_total 1`, "percolator_tso_timestamps_total 0", `percolator_tso_store_writes_total \d`,
		"percolator_tso_ready 1", "percolator_tso_epoch 1", `percolator_tso_lease_left_seconds 0\.`, `percolator_tso_window_left_seconds 0\.`, `percolator_tso_high_water_ahead_seconds \S`,
		`percolator_tso_store_silence_seconds 0`, "go_goroutines ", "process_open_fds ", "go_build_info",
	} {
		awaitPage(t, adminA+"/metrics", http.StatusOK, "(?m)^"+metric)
	}
	if code, _ := get(t, adminA+"/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("another page: %d", code)
	}
	if answered(t, adminA, "X: "+strings.Repeat("x", 4*oracle.AdminHeaderBytes)) {
		t.Error("a large header is accepted")
	}
	if !answered(t, adminA, "X: x") {
		t.Error("a small header is not accepted")
	}

	stopStore()
	awaitPage(t, adminA+"/readyz", http.StatusServiceUnavailable, "store has not answered for")
	awaitPage(t, adminB+"/readyz", http.StatusServiceUnavailable, "store has not answered for")
	awaitPage(t, adminA+"/healthz", http.StatusOK, "ok")
	awaitPage(t, adminA+"/metrics", http.StatusOK, "(?m)^percolator_tso_ready 0")
}

// The environment configures a server like flags, and flags win.
func TestServeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	emulator := startBigtable(t)
	env := append(onBigtable(emulator), "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i", "PERCOLATOR_TSO_LISTEN=127.0.0.1:0",
		"PERCOLATOR_TSO_ADMIN=off", "PERCOLATOR_LOG_FORMAT=json", "PERCOLATOR_TSO_REFLECTION=true", "PERCOLATOR_TSO_NAME=nobody's")
	p := start(t, env, "tso", "serve", "--name", "default")
	address := p.awaitLog(t, `"serving the oracle".*"address":"([^"]+)"`)
	p.awaitLog(t, `"leading the oracle"`)

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "percolator.tso.v1.Oracle"})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", resp, err)
	}
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if list, err := stream.Recv(); err != nil || !strings.Contains(list.String(), "percolator.tso.v1.Oracle") {
		t.Errorf("reflection: %v, %v", list, err)
	}

	bad := start(t, append(env, "PERCOLATOR_TSO_WINDOW=long"), "tso", "serve")
	if code := bad.wait(t); code != cli.ExitUsage || !strings.Contains(bad.stderr.String(), "PERCOLATOR_TSO_WINDOW") {
		t.Errorf("a bad variable: exit status %d, %q", code, bad.stderr.String())
	}
	both := start(t, append(env, "PERCOLATOR_SPANNER=projects/p/instances/i/databases/d"), "tso", "serve")
	if code := both.wait(t); code != cli.ExitUsage || !strings.Contains(both.stderr.String(), "environment") {
		t.Errorf("two stores: exit status %d, %q", code, both.stderr.String())
	}
}

// Mutual TLS from end to end, and a rotation of the server's certificate by its files.
func TestServeMutualTLS(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	dir, ca := t.TempDir(), testca.New(t)
	caFile := testca.Write(t, dir, "ca.pem", ca.PEM)
	write := func(side string) (cert, key string) {
		issued := ca.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
		return testca.Write(t, dir, side+".pem", issued.PEM), testca.Write(t, dir, side+".key", issued.Key)
	}
	serverCert, serverKey := write("server")
	clientCert, clientKey := write("client")
	_, address := startServer(t, startBigtable(t), "--tls-cert", serverCert, "--tls-key", serverKey, "--tls-client-ca", caFile)
	env := []string{"PERCOLATOR_TSO_ADDR=" + address, tso.EnvCA + "=" + caFile, tso.EnvCert + "=" + clientCert, tso.EnvKey + "=" + clientKey}
	for name, p := range map[string]*program{
		"by environment": start(t, env, "tso", "next"),
		"by flags":       start(t, nil, "tso", "next", "--tso", address, "--tls-ca", caFile, "--tls-cert", clientCert, "--tls-key", clientKey),
		"not by ALTS, which the environment asks for": start(t, append(env, "PERCOLATOR_TSO_ALTS=true"), "tso", "next", "--tls-ca", caFile),
	} {
		if code := p.wait(t); code != cli.ExitOK {
			t.Errorf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
	}
	status := start(t, env, "tso", "status") // now that a server leads: it does not wait for one
	if code := status.wait(t); code != cli.ExitOK {
		t.Errorf("status: exit status %d, %q", code, status.stderr.String())
	}
	for name, p := range map[string]*program{
		"plaintext":             start(t, nil, "tso", "next", "--tso", address, "--timeout", "1s"),
		"without a certificate": start(t, nil, "tso", "next", "--tso", address, "--timeout", "1s", "--tls-ca", caFile),
		"with another name":     start(t, env, "tso", "next", "--timeout", "1s", "--tls-server-name", "oracle.example"),
	} {
		if code := p.wait(t); code != cli.ExitUnavailable {
			t.Errorf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
	}
}

// Outside Google Cloud, where tests run as a rule, ALTS is refused with a reason before
// anything listens or dials.
func TestALTS(t *testing.T) {
	t.Parallel()
	if _, err := cli.ALTSServer(); err == nil {
		t.Log("this machine has ALTS")
		return
	}
	for _, args := range [][]string{
		{"tso", "serve", "--alts", "--project", "p", "--instance", "i"},
		{"tso", "next", "--alts", "--tso", "127.0.0.1:1"},
		{"tso", "status", "--alts", "--tso", "127.0.0.1:1"},
	} {
		p := start(t, nil, args...)
		if code := p.wait(t); code != cli.ExitUsage || !strings.Contains(p.stderr.String(), "Google Cloud only") {
			t.Errorf("%v: exit status %d, %q", args, code, p.stderr.String())
		}
	}
}

// openTable opens the table of the record in the emulator.
func openTable(t *testing.T, address string) *bigtable.Table {
	t.Helper()
	client, err := bigtable.NewClientWithConfig(t.Context(), "p", "i",
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true}, emulator.Connect(address)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.Open(tso.BigtableTable)
}
