"""A plugin for pytest: services of a docker-compose.yml as processes of the servers in PATH.

Provides the fixture `docker_services` of lovely-pytest-docker as far as the suite of `limits` uses it. Ports and
folders are those that docker-compose.yml publishes.
"""

import shlex
import subprocess
import time

import pytest
import yaml


def command_of(service):
    """Returns the arguments of a service's server, with the paths and the port that its users see."""
    command = service['command'].replace('${DEFAULT_ARGS---enable-debug-command yes}', '')
    command = command.replace('/tls/', 'tests/tls/').replace('/sockets/', '/tmp/')
    args = shlex.split(command)
    if args[0] == 'sh':
        args = shlex.split(args[-1].split('||')[1])
    for published in service.get('ports', []):
        outside, inside = published.split(':')
        args = [outside if arg == inside else arg for arg in args]
    return args


def pytest_addoption(parser):
    parser.addoption('-K', '--keepalive', action='store_true', help='no effect: the servers end with the suite')


class Services:
    def __init__(self, folder):
        with open('docker-compose.yml', encoding='utf-8') as file:
            self.services = yaml.safe_load(file)['services']
        self.folder, self.started = folder, {}

    def start(self, name):
        if name not in self.started:
            args = command_of(self.services[name])
            self.started[name] = subprocess.Popen([*args, '--dir', str(self.folder)], stdout=subprocess.DEVNULL)
            time.sleep(1)


@pytest.fixture(scope='session')
def docker_services(tmp_path_factory):
    services = Services(tmp_path_factory.mktemp('services'))
    yield services
    for process in services.started.values():
        process.kill()
