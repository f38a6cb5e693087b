package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
)

func TestParseMark(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]tso.Timestamp{
		"now": tso.At(now), "now+10m": tso.At(now.Add(10 * time.Minute)), "2026-06-01T12:00:01Z": tso.At(now.Add(time.Second)),
		"12345": 12345, strconv.FormatInt(int64(tso.MaxTimestamp), 10): tso.MaxTimestamp,
	} {
		if got, err := parseMark(text, now); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "now-10m", "now+", "now10m", "tomorrow", "9223372036854775807"} {
		if got, err := parseMark(text, now); exitCode(err) != exitUsage {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func raiseCommand(t *testing.T, emulator string, args ...string) *program {
	t.Helper()
	return start(t, onBigtable(emulator), append([]string{"tso", "raise", "--project", "p", "--instance", "i"}, args...)...)
}

// raised runs raise, which must succeed, and returns the mark.
func raised(t *testing.T, emulator string, args ...string) tso.Timestamp {
	t.Helper()
	p := raiseCommand(t, emulator, args...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d, %q", code, p.stderr.String())
	}
	match := mark.FindStringSubmatch(p.stdout.String())
	if match == nil {
		t.Fatalf("printed %q", p.stdout.String())
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return tso.Timestamp(n)
}

func TestRaise(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator := startBigtable(t)
	to := raised(t, emulator, "--to", "now+10m")
	if ahead := time.Until(to.Time()); ahead < 9*time.Minute || ahead > 10*time.Minute {
		t.Errorf("the mark is %v ahead", ahead)
	}
	for name, c := range map[string]struct {
		args []string
		want string
		code int
	}{
		"lower":     {[]string{"--to", "now"}, "cannot be lowered", exitUsage},
		"far":       {[]string{"--to", "now+2h"}, "--far", exitUsage},
		"nonsense":  {[]string{"--to", "x"}, "--to", exitUsage},
		"nothing":   {nil, "--to", exitUsage},
		"no record": {[]string{"--to", "now", "--name", "other"}, "--replace-damaged", exitRecord},
	} {
		p := raiseCommand(t, emulator, c.args...)
		if code := p.wait(t); code != c.code || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
	}

	// A server starts above, and while it leads its lease protects the record.
	lease := []string{"--lease", "1500ms"}
	s, address := startServer(t, emulator, lease...)
	s.awaitLog(t, lead)
	client, err := tso.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if ts := take(t, client); ts <= to {
		t.Errorf("%d after the mark %d", ts, to)
	}
	p := raiseCommand(t, emulator, "--to", "now+30m")
	if code := p.wait(t); code != exitFailure || !strings.Contains(p.stderr.String(), address) {
		t.Errorf("while a server leads: exit status %d, %q", code, p.stderr.String())
	}
	fenced := raised(t, emulator, "--to", "now+30m", "--fence")
	if ts := take(t, client); ts <= fenced {
		t.Errorf("%d after the mark %d", ts, fenced)
	}
	// The leader dies without handing over: its lease runs out, and needs no --fence.
	s.signal(t, syscall.SIGKILL)
	s.wait(t)
	raised(t, emulator, "--to", "now+50m")
}

// A record that was lost or damaged keeps servers from starting until it is replaced.
func TestRaiseAfterDamage(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, damage := range map[string]func(m *bigtable.Mutation){
		"lost":    func(m *bigtable.Mutation) { m.DeleteRow() },
		"damaged": func(m *bigtable.Mutation) { m.Set(tso.BigtableFamily, "state", 1000, []byte("rubbish")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			emulator := startBigtable(t)
			s, address := startServer(t, emulator)
			client, err := tso.Dial(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			last := take(t, client)
			_ = client.Close()
			s.signal(t, syscall.SIGTERM)
			s.wait(t)
			mut := bigtable.NewMutation()
			damage(mut)
			if err := openTable(t, emulator).Apply(t.Context(), "default", mut); err != nil {
				t.Fatal(err)
			}
			args := []string{"tso", "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--project", "p", "--instance", "i"}
			if p := start(t, onBigtable(emulator), args...); p.wait(t) != exitRecord || !strings.Contains(p.stderr.String(), "tso raise") {
				t.Fatalf("a server: %q", p.stderr.String())
			}
			if p := raiseCommand(t, emulator, "--to", "now+1m"); p.wait(t) != exitRecord || !strings.Contains(p.stderr.String(), "--replace-damaged") {
				t.Errorf("raise: %q", p.stderr.String())
			}
			to := raised(t, emulator, "--to", "now+1m", "--replace-damaged")
			_, address = startServer(t, emulator)
			client, err = tso.Dial(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			if ts := take(t, client); ts <= to || ts <= last {
				t.Errorf("%d after %d and the mark %d", ts, last, to)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("x"), exitFailure},
		{usagef("x"), exitUsage},
		{fmt.Errorf("x: %w", usagef("x")), exitUsage},
		{fmt.Errorf("x: %w", tso.ErrInvalidArgument), exitUsage},
		{fmt.Errorf("x: %w", tso.ErrUnavailable), exitUnavailable},
		{&tso.NotLeaderError{}, exitUnavailable},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), exitUnavailable},
		{status.Error(codes.Unavailable, "x"), exitUnavailable},
		{status.Error(codes.PermissionDenied, "x"), exitFailure},
		{fmt.Errorf("x: %w", tso.ErrCorrupt), exitRecord},
		{advise(tso.ErrNoRecord), exitRecord},
		{advise(status.Error(codes.NotFound, "x")), exitFailure},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit status %d, want %d", c.err, got, c.want)
		}
	}
}
