package tso

import (
	"errors"
	"fmt"
	"testing"
)

// namesLeader is what a client gets from a follower.
func namesLeader(address string) error {
	return fmt.Errorf("host:1: %w", toStatus(&NotLeaderError{Leader: address}))
}

func closePeers(t *testing.T, p *peers) {
	t.Helper()
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPeersTakeTurns(t *testing.T) {
	t.Parallel()
	p := newPeers([]string{"a:1", "b:1", "c:1"}, newDialOptions(nil))
	closePeers(t, p)
	for i, want := range []struct {
		address string
		at      bool // once, without a pause
	}{{"b:1", true}, {"c:1", true}, {"a:1", false}, {"b:1", true}} {
		if at := p.next(errStore); p.current.address != want.address || at != want.at {
			t.Errorf("attempt %d: %s, without a pause: %v; want %v", i, p.current.address, at, want)
		}
	}
}

func TestPeersFollow(t *testing.T) {
	t.Parallel()
	p := newPeers([]string{"a:1", "b:1"}, newDialOptions(nil))
	closePeers(t, p)
	if !p.next(namesLeader("leader:1")) || p.current.address != "leader:1" {
		t.Errorf("the leader is not followed, but %s tried", p.current.address)
	}
	for what, err := range map[string]error{
		"no leader":         namesLeader(""),
		"itself":            namesLeader("leader:1"),
		"no address":        namesLeader("nonsense"),
		"any address":       namesLeader("0.0.0.0:1"),
		"no status at all":  errors.New("nonsense"),
		"an unknown answer": errStore,
	} {
		p.current = p.get("leader:1")
		if p.next(err); p.current.address == "leader:1" || p.current.address == "nonsense" {
			t.Errorf("%s: %s is tried", what, p.current.address)
		}
	}
}

// Leaders come and go while a client lives; connections to them must not pile up.
func TestPeersForget(t *testing.T) {
	t.Parallel()
	p := newPeers([]string{"a:1", "b:1"}, newDialOptions(nil))
	closePeers(t, p)
	for i := range 100 {
		p.next(namesLeader(fmt.Sprintf("leader-%d:1", i)))
		if bound := len(p.targets) + 2*maxFollowed; len(p.known) > bound {
			t.Fatalf("%d servers are known, more than %d", len(p.known), bound)
		}
	}
	for _, target := range p.targets {
		if p.known[target] == nil {
			t.Errorf("the target %s was forgotten", target)
		}
	}
}
