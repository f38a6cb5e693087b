package main

import (
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/alts"
)

// altsServer and altsClient return credentials of ALTS, by which Google Cloud's
// machines know each other without certificates. It exists nowhere else.
func altsServer() (credentials.TransportCredentials, error) {
	return altsHere(alts.NewServerCreds(alts.DefaultServerOptions()))
}

func altsClient() (credentials.TransportCredentials, error) {
	return altsHere(alts.NewClientCreds(alts.DefaultClientOptions()))
}

// altsHere returns creds if this machine has ALTS. The library tells at the first
// handshake, which would be too late: a server would seem to work and refuse everybody.
// So a handshake is begun on a connection that is closed already.
func altsHere(creds credentials.TransportCredentials) (credentials.TransportCredentials, error) {
	here, there := net.Pipe()
	_, _ = here.Close(), there.Close()
	_, _, err := creds.ServerHandshake(here)
	if errors.Is(err, alts.ErrUntrustedPlatform) {
		return nil, usagef("--alts works on Google Cloud only, and this machine does not seem to be there: use TLS")
	}
	return creds, nil
}
