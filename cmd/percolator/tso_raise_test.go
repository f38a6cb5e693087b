package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
)

func raiseCommand(t *testing.T, emulator string, args ...string) *program {
	t.Helper()
	return start(t, onBigtable(emulator), append([]string{"tso", "raise", "--project", "p", "--instance", "i"}, args...)...)
}

// raised runs raise, which must succeed, and returns the mark.
func raised(t *testing.T, emulator string, args ...string) tso.Timestamp {
	t.Helper()
	p := raiseCommand(t, emulator, args...)
	if code := p.wait(t); code != cli.ExitOK {
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
		"lower":     {[]string{"--to", "now"}, "cannot be lowered", cli.ExitUsage},
		"far":       {[]string{"--to", "now+2h"}, "--far", cli.ExitUsage},
		"nonsense":  {[]string{"--to", "x"}, "--to", cli.ExitUsage},
		"nothing":   {nil, "--to", cli.ExitUsage},
		"no record": {[]string{"--to", "now", "--name", "other"}, "--replace-damaged", cli.ExitRecord},
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
	if code := p.wait(t); code != cli.ExitFailure || !strings.Contains(p.stderr.String(), address) {
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
			if p := start(t, onBigtable(emulator), args...); p.wait(t) != cli.ExitRecord || !strings.Contains(p.stderr.String(), "tso raise") {
				t.Fatalf("a server: %q", p.stderr.String())
			}
			if p := raiseCommand(t, emulator, "--to", "now+1m"); p.wait(t) != cli.ExitRecord || !strings.Contains(p.stderr.String(), "--replace-damaged") {
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
