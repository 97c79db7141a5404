"""Both locks over every road to a server, by clients that speak either protocol."""

import asyncio

import pytest
import redis
import redis.asyncio
from conftest import PATIENCE_S, wait

from keylatch_lock import AsyncLock, Lock, LockLost

every_road = pytest.mark.parametrize("road", ["TCP", "Unix", "Unix URL", "TLS"])
every_protocol = pytest.mark.parametrize("protocol", [2, 3])


@every_road
@every_protocol
def test_a_lock_is_waited_for_and_changes_its_mode_and_its_loss_is_told(server, road, protocol):
    with server.road(road, redis, protocol=protocol) as client:
        with Lock(client, "lock") as first:
            assert not Lock(client, "lock", wait=0.01).acquire()
            first.downgrade()
            assert Lock(client, "lock", shared=True, wait=0).acquire().release()
            first.upgrade()
        with pytest.raises(LockLost, match="deleted"), Lock(client, "lock") as second:
            assert second.fence > first.fence
            server.client.delete("lock")
            wait(lambda: second.lost)


@every_road
@every_protocol
def test_a_lock_for_asyncio_is_waited_for_and_changes_its_mode_and_its_loss_is_told(server, road, protocol):
    async def run():
        async with asyncio.timeout(PATIENCE_S), server.road(road, redis.asyncio, protocol=protocol) as client:
            async with AsyncLock(client, "lock") as first:
                assert not await AsyncLock(client, "lock", wait=0.01).acquire()
                await first.downgrade()
                assert await (await AsyncLock(client, "lock", shared=True, wait=0).acquire()).release()
                await first.upgrade()
            with pytest.raises(LockLost, match="deleted"):
                async with AsyncLock(client, "lock") as second:
                    assert second.fence > first.fence
                    server.client.delete("lock")
                    while not second.lost:
                        await asyncio.sleep(0.002)

    asyncio.run(run())
