package tso

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// selfSigned returns the credentials of a server on loopback and of its clients.
func selfSigned(t *testing.T) (server, client credentials.TransportCredentials) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}),
		credentials.NewTLS(&tls.Config{RootCAs: pool})
}

// Leaders that followers name are called with the same credentials as the targets.
func TestServerTLS(t *testing.T) {
	t.Parallel()
	serverCreds, clientCreds := selfSigned(t)
	store := NewMemoryStore()
	a := serve(t, store, ServerConfig{Credentials: serverCreds})
	mustNext(t, a)
	b := serve(t, store, ServerConfig{Credentials: serverCreds})
	mustNext(t, dial(t, b.address, WithTransportCredentials(clientCreds)))
	if client, err := Dial(t.Context(), a.address, WithTimeout(500*time.Millisecond)); err == nil {
		t.Error("plaintext was accepted")
		_ = client.Close()
	}
}
