package emulator

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// lasting has a connection closed 13 s after its peer fell silent.
var lasting = option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}))

// inMemory is an emulator without a network, with a table, and a client of it.
func inMemory(t *testing.T, opts ...Option) (*Server, *bigtable.Table) {
	t.Helper()
	s := start(t, append(opts, InMemory())...)
	createTable(t, s.ClientOptions(), "t", "f")
	synctest.Wait() // the administration's connection has ended
	return s, openClient(t, append(s.ClientOptions(), lasting)).Open("t")
}

// write is how long a mutation takes, with a deadline of 20 s, and its code.
func write(t *testing.T, tbl *bigtable.Table) (time.Duration, codes.Code) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	err := tbl.Apply(ctx, "r", bigtable.NewCondMutation(bigtable.PassAllFilter(), setOne(), setOne())) // sent once
	return time.Since(began), status.Code(err)
}

// TestSilentConnections: one that swallows everything is found by its client's keepalive, and a new
// one serves.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tbl := inMemory(t)
		if took, code := write(t, tbl); took != 0 || code != codes.OK {
			t.Errorf("before: %v, %v", took, code)
		}
		silent := s.Connections()
		if len(silent) != 1 {
			t.Fatalf("%d connections", len(silent))
		}
		silent[0].Silence()
		if took, code := write(t, tbl); took < 3*time.Second || took > 13*time.Second || code != codes.Unavailable {
			t.Errorf("on the silent one: %v, %v", took, code)
		}
		if took, code := write(t, tbl); took > 2*time.Second || code != codes.OK {
			t.Errorf("on another: %v, %v", took, code)
		}
		synctest.Wait() // the emulator has heard of its end
		if slices.Contains(s.Connections(), silent[0]) {
			t.Error("the silent one is open")
		}
		silent[0].Silence()
		silent[0].GoAway()
		silent[0].Reset()
	})
}

// TestSilentFromTheStart: the next connections are silent, as many as were asked for.
func TestSilentFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, InMemory())
		createTable(t, s.ClientOptions(), "t", "f")
		s.SilenceNext(1)
		for i, want := range []codes.Code{codes.DeadlineExceeded, codes.OK} {
			conn, err := s.dialInside()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if code := status.Code(pingOver(ctx, conn)); code != want {
				t.Errorf("connection %d: %v, want %v", i, code, want)
			}
			cancel()
			_ = conn.Close()
		}
	})
}

func pingOver(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := btpb.NewBigtableClient(conn).PingAndWarm(ctx, &btpb.PingAndWarmRequest{Name: parent})
	return err
}

// TestResetConnections: requests in flight fail at once, later ones find a new connection.
func TestResetConnections(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{nil, {InMemory()}} {
		s := start(t, opts...)
		createTable(t, s.ClientOptions(), "t", "f")
		tbl := openClient(t, s.ClientOptions()).Open("t")
		frozen := s.Freeze()
		failed := make(chan codes.Code)
		go func() {
			_, code := write(t, tbl)
			failed <- code
		}()
		table, done := s.guard.tables.use(fullName("t"))
		eventually(t, "a mutation waits", func() bool { return table.outstanding.Load() == 1 })
		done()
		for _, c := range s.Connections() {
			c.Reset()
		}
		if code := <-failed; code != codes.Unavailable {
			t.Errorf("in flight: %v", code)
		}
		frozen.Thaw()
		eventually(t, "a new connection serves", func() bool { _, code := write(t, tbl); return code == codes.OK })
	}
}

// TestGoAway: what is in flight ends as usual, and what comes then takes a new connection.
func TestGoAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(Processor)
		s, tbl := inMemory(t, OnProcessor(p))
		if _, err := tbl.ReadRow(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		p.Occupy(time.Second)
		answered := make(chan codes.Code, 1)
		go func() {
			_, code := write(t, tbl)
			answered <- code
		}()
		synctest.Wait()
		before := s.Connections()
		for _, c := range before {
			c.GoAway()
			c.GoAway()
		}
		synctest.Wait()
		meanwhile := make(chan error, 1)
		go func() {
			_, err := tbl.ReadRow(t.Context(), "r")
			meanwhile <- err
		}()
		synctest.Wait()
		if len(s.Connections()) != len(before)+1 {
			t.Errorf("%d connections, were %d", len(s.Connections()), len(before))
		}
		if code := <-answered; code != codes.OK {
			t.Errorf("in flight: %v", code)
		}
		if err := <-meanwhile; err != nil {
			t.Errorf("meanwhile: %v", err)
		}
		synctest.Wait()
		for _, c := range before {
			if slices.Contains(s.Connections(), c) {
				t.Error("it is open")
			}
		}
		for range 100 {
			if _, code := write(t, tbl); code != codes.OK {
				t.Errorf("later: %v", code)
			}
			for _, c := range s.Connections() {
				c.GoAway()
			}
		}
	})
}

// TestFrames: where a frame ends, however the bytes come.
func TestFrames(t *testing.T) {
	t.Parallel()
	stream := slices.Concat([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}, goAwayFrame, []byte{0, 1, 4, 0, 0, 0, 0, 0, 1}, make([]byte, 260))
	ends := []int{0, 9, 26, len(stream)}
	for _, step := range []int{1, 2, 3, 7, 9, 13, len(stream)} {
		var f frames
		for at := 0; ; at = min(at+step, len(stream)) {
			if f.between() != slices.Contains(ends, at) {
				t.Errorf("by %d, after %d bytes: %v", step, at, f.between())
			}
			if at == len(stream) {
				break
			}
			f.pass(stream[at:min(at+step, len(stream))])
		}
	}
}
