package main

import "testing"

func TestCheckLiveSession(t *testing.T) {
	t.Parallel()
	s := session{c: newCluster(t, nil)}
	s.run(exitOK, "check", "--live", "--dry-run")
	s.run(exitOK, "check", "--live")
	t.Log(s.text.String())
}
