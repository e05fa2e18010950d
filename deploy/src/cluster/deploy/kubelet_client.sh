# Gives the kubelet the certificate by which it talks to the API, and stops it: it reads the certificate when it starts.
# Standard input: certificate and key. FOLDER: where the kubelet keeps its own. CURRENT: the link to the one that it uses.
# TOKEN: with which earlier versions let it join.
mkdir -p "$FOLDER"
umask 077
issued=$FOLDER/kubelet-client-issued.pem
cat > "$issued.new"
systemctl stop kubelet 2>/dev/null || :
# Those that it got from the cluster; this one is newer.
rm -f "$FOLDER"/kubelet-client-20*.pem "$TOKEN"
mv -f "$issued.new" "$issued"
ln -sfn "$issued" "$CURRENT.new"
mv -fT "$CURRENT.new" "$CURRENT"
