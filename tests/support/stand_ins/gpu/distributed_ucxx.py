"""UCX by name; in truth TCP."""

from distributed.comm.tcp import TCPBackend, TCPConnector, TCPListener


class _Connector(TCPConnector):
    prefix = "ucx://"


class _Listener(TCPListener):
    prefix = "ucx://"


class UCXXBackend(TCPBackend):
    """What the name ``ucx`` stands for."""

    _connector_class = _Connector
    _listener_class = _Listener
