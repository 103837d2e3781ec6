package main

import (
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// natsRequests makes waitingRequests.
//
//go:linkname natsRequests github.com/nats-io/nats-server/v2/server.wrPool
var natsRequests sync.Pool

func TestNATSsQueueIsThatOfThePinnedVersion(t *testing.T) {
	request := reflect.TypeOf(natsRequests.Get()).Elem()
	assert.Equal(t, "waitingRequest", request.Name())
	assert.Equal(t, "next", request.Field(0).Name)
	assert.Equal(t, unsafe.Offsetof(natsRequest{}.ctx), request.Size(), "the room that natsRequest has for it")
	line := newWaitQueue(3)
	var all [3]natsRequest
	for i := range all {
		require.NoError(t, addWaiting(line, &all[i]))
	}
	require.Error(t, addWaiting(line, new(natsRequest)), "it is full")
	for i := range all {
		assert.Same(t, &all[i], popWaiting(line))
	}
	assert.Nil(t, popWaiting(line))
}
